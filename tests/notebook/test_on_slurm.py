"""`%%ranks --on slurm`: what is asked of srun, and what is refused. On a cluster: tests/cluster."""

import pytest
from IPython.core.error import UsageError

from hpml.notebook import on_slurm
from hpml.notebook.ranks_magic import _parser, ranks


def srun(line, inside=False):
    return on_slurm.srun(_parser().parse_args(line.split()), inside)


def test_outside_an_allocation_srun_asks_for_one():
    words = srun("8 --on slurm --nodes 2 --time 10 --threads 4 --gpus 1")
    asked = "--ntasks=8 --cpus-per-task=4 --nodes=2 --ntasks-per-node=4 --time=10 --gpus-per-task=1"
    assert set(asked.split()) <= set(words)
    assert "--overlap" not in words
    assert words[-3:-1] == ["bash", "-c"]
    assert words[-1].startswith("source slurm/site.sh && ")


def test_inside_an_allocation_it_shares_what_is_there():
    words = srun("3 --on slurm --time 10", inside=True)
    assert "--overlap" in words
    assert not [word for word in words if word.startswith(("--time", "--nodes", "--gpus"))]


def test_ranks_that_do_not_divide_fill_the_nodes():
    assert "--ntasks-per-node=3" in srun("5 --on slurm --nodes 2")


@pytest.mark.parametrize("inside", [True, False])
def test_inside_the_step_has_the_jobs_memory_and_cpus_whatever_was_exported(monkeypatch, inside):
    names = ["SLURM_MEM_PER_CPU", "SLURM_MEM_PER_NODE", "SLURM_CPU_BIND_LIST"]
    for name in [*names, "SLURM_JOB_ID"]:
        monkeypatch.setenv(name, "1")
    kept = {name for name in on_slurm.environment(inside) if name.startswith("SLURM_")}
    assert kept.isdisjoint(names) is inside
    assert "SLURM_JOB_ID" in kept


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("2 --nodes 2", "--nodes goes with --on slurm"),
        ("2 --time 5", "--time goes with --on slurm"),
        ("2 --gpus 1", "--gpus goes with --on slurm"),
        ("2 --on slurm --link 1gbit", "--link is for ranks on this machine"),
        ("2 --on slurm --memory 1gb", "--memory is for ranks on this machine"),
        ("2 --on slurm --horovod", "--horovod is for ranks on this machine"),
        ("2 --on slurm --live-tensors", "--live-tensors is for ranks on this machine"),
        ("2 --on lsf", "invalid choice"),
        ("2 --on slurm --nodes 0", "argument --nodes: 0: give a whole number from 1 on"),
        ("2 --on slurm --nodes two", "argument --nodes: two: give a whole number from 1 on"),
        ("2 --on slurm --gpus -1", "argument --gpus: -1: give a whole number from 1 on"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(shell, line, said):
    with pytest.raises(UsageError) as refused:
        ranks(line, "1")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_slurm_the_remedy_is_named(shell, monkeypatch, tmp_path):
    monkeypatch.setenv("HPML_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    with pytest.raises(UsageError, match=r"no SLURM answers here: .*hpml cluster up"):
        ranks("2 --on slurm", "1")
