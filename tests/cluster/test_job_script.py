import re
import shutil
from pathlib import Path

import pytest

from hpml.cluster.job_script import (
    choose,
    fitting_options,
    job_changes,
    read,
    sbatch_command,
    shell_line,
    site_settings,
    start_line,
)
from hpml.cluster.shape import Shape
from hpml.course.schedule import load
from hpml.errors import UserError
from hpml.paths import CHECKOUT

NAMES = ("06_one_node", "06_several_nodes", "06_several_nodes_gpu")
SCRIPTS = [read(Path(f"slurm/{name}.slurm"), CHECKOUT) for name in NAMES]
ONE, SEVERAL, GPU = SCRIPTS


def test_a_scripts_directives_are_read():
    assert (ONE.name, ONE.nodes, ONE.tasks_per_node, ONE.cpus_per_task) == ("one_node", 1, 4, 4)
    assert [script.gpus for script in SCRIPTS] == [False, False, True]


def test_a_script_that_is_not_there_is_a_user_error():
    with pytest.raises(UserError, match=r"slurm/07\.slurm: No such file"):
        read(Path("slurm/07.slurm"), CHECKOUT)


@pytest.mark.parametrize(
    ("nodes", "gpus", "chosen"),
    [
        (None, False, ONE),
        (1, False, ONE),
        (2, False, SEVERAL),
        (1, True, ONE),
        (4, True, GPU),
    ],
)
def test_the_script_that_fits_is_chosen(nodes, gpus, chosen):
    assert choose(SCRIPTS, module="06", nodes=nodes, gpus=gpus) is chosen


@pytest.mark.parametrize(
    "name", ["several_nodes", "06_several_nodes", "06_several_nodes.slurm", str(SEVERAL.path)]
)
def test_a_script_can_be_named_in_every_way(name):
    assert choose(SCRIPTS, module="06", job=name) is SEVERAL


def test_of_several_that_fit_the_first_and_any_where_none_has_as_many_nodes():
    assert choose([SEVERAL, ONE, GPU, SEVERAL], module="06", nodes=3) is SEVERAL
    assert choose([SEVERAL, GPU], module="06") is SEVERAL
    assert choose([ONE, GPU], module="06", nodes=2) is ONE


@pytest.mark.parametrize("module", ["00", "01", "02", "03", "04", "05", "06", "07", "08"])
def test_each_module_has_one_for_a_cluster_without_gpus(module):
    jobs = load().module(module).jobs
    assert not choose([read(path, CHECKOUT) for path in jobs], module=module).gpus


def test_a_single_script_needs_no_choice():
    assert choose([GPU], module="06") is GPU


def test_what_cannot_be_chosen_is_refused_with_the_names_there_are():
    with pytest.raises(UserError, match="--job nope: module 06 has one_node, several_nodes, "):
        choose(SCRIPTS, module="06", job="nope")
    with pytest.raises(UserError, match="has no job script for that: name one with --job"):
        choose([GPU, GPU], module="06", nodes=2)
    with pytest.raises(UserError, match="module 05 has no job script"):
        choose([], module="05")


@pytest.mark.parametrize(
    ("cpus", "options"),
    [
        (16, []),
        (8, ["--cpus-per-task=2"]),
        (4, ["--cpus-per-task=1"]),
        (2, ["--ntasks-per-node=2", "--cpus-per-task=1"]),
        (1, ["--ntasks-per-node=1", "--cpus-per-task=1"]),
    ],
)
def test_on_small_virtual_nodes_ranks_get_fewer_cores_and_then_there_are_fewer(cpus, options):
    assert fitting_options(ONE, Shape(4, cpus), [], None, 64) == options


@pytest.mark.parametrize(
    ("cores", "options"), [(16, []), (9, ["--cpus-per-task=2"]), (2, ["--cpus-per-task=1"])]
)
def test_on_a_small_machine_ranks_have_fewer_threads_and_are_as_many(cores, options):
    assert fitting_options(ONE, Shape(4, 16), [], None, cores) == options


@pytest.mark.parametrize("given", ["-c2", "--cpus-per-task=2", "--ntasks=2", "-n", "-n4"])
def test_given_numbers_are_obeyed(given):
    assert fitting_options(ONE, Shape(4, 2), ["--time=5", given], None, 2) == []


def test_more_nodes_than_there_are_is_a_user_error():
    assert fitting_options(SEVERAL, Shape(2, 16), [], 2, 16) == []
    with pytest.raises(UserError, match="3 nodes are wanted, and the cluster has 2"):
        fitting_options(SEVERAL, Shape(2, 16), [], 3, 16)
    with pytest.raises(UserError, match="2 nodes are wanted, and the cluster has 1"):
        fitting_options(SEVERAL, Shape(1, 16), [], None, 16)


@pytest.fixture
def site(tmp_path):
    """A project folder whose site.sh can be filled in: its path, and what fills it in."""
    (tmp_path / "slurm").mkdir()
    shutil.copy(CHECKOUT / "slurm" / "site.sh", tmp_path / "slurm")

    def fill_in(**values: str) -> Path:
        file = tmp_path / "slurm" / "site.sh"
        text = file.read_text()
        for name, value in values.items():
            text, count = re.subn(rf"(?m)^{name}=(?=\s)", f"{name}={value!r}", text)
            assert count == 1, name
        file.write_text(text)
        return tmp_path

    return fill_in


def test_settings_are_those_that_site_sh_has_for_that_kind_of_job(site):
    assert site_settings(ONE, site()) == {}
    root = site(account="abc", cpu_constraint="fat&new", gpu_constraint="big", gpu_partition="g")
    assert site_settings(ONE, root) == {"SBATCH_ACCOUNT": "abc", "SBATCH_CONSTRAINT": "fat&new"}
    assert site_settings(GPU, root) == {
        "SBATCH_ACCOUNT": "abc",
        "SBATCH_PARTITION": "g",
        "SBATCH_CONSTRAINT": "big",
    }


def test_a_site_sh_with_a_mistake_is_a_user_error(site):
    root = site()
    (root / "slurm" / "site.sh").write_text("if\n")
    with pytest.raises(UserError, match=r"slurm/site\.sh cannot be read: .*syntax error"):
        site_settings(ONE, root)


def test_the_line_that_is_shown_can_be_typed():
    words = sbatch_command(ONE, ["--time=5", "--comment=a b"], ["--epochs", "3"])
    line = shell_line(words, {"SBATCH_ACCOUNT": "a b"})
    assert line == (
        "SBATCH_ACCOUNT='a b' sbatch --time=5 '--comment=a b' slurm/06_one_node.slurm --epochs 3"
    )


@pytest.mark.parametrize("launcher", ["horovodrun", "mpirun", "srun"])
def test_the_line_that_starts_the_ranks_is_found(launcher):
    line = start_line(CHECKOUT / "slurm" / f"05_{launcher}.slurm")
    assert line.startswith(f"{launcher} ")
    assert "container" not in line
    assert not line.endswith("\\")


def test_a_script_that_starts_no_rank_is_a_user_error():
    with pytest.raises(UserError, match=r"site\.sh: nothing in it starts ranks"):
        start_line(CHECKOUT / "slurm" / "site.sh")


def test_the_changes_between_two_job_scripts_are_what_they_ask_for_and_start():
    title, *lines = job_changes("06_several_nodes.slurm", "06_several_nodes_gpu.slurm").splitlines()
    assert title == "from 06_several_nodes.slurm to 06_several_nodes_gpu.slurm"
    assert {line[0] for line in lines} == {"-", "+"}
    assert next(line for line in lines if "--gpus-per-node" in line).startswith("+#SBATCH")
    assert "--device cuda" in lines[-1]
    assert not any("--time" in line or "Module" in line for line in lines)
