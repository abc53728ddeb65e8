"""./hpml site check on a virtual cluster: green as it is, and each planted fault is found."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from hpml.cluster import job_script, queue
from hpml.course import site_check
from hpml.errors import UserError
from hpml.paths import CHECKOUT

pytestmark = [pytest.mark.measures, pytest.mark.xdist_group("cluster")]  # daemons

NOT_THERE = "HPML_DATA /nowhere does not exist"


@pytest.fixture
def project():
    """A folder with slurm/ of its own that all nodes see: each has its own /tmp."""
    (CHECKOUT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "build") as folder:
        yield Path(folder)


@pytest.fixture
def found(cluster, project, monkeypatch):
    """`found(a line of site.sh, what is there instead)`: the red facts, by name."""
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    shutil.copytree(CHECKOUT / "slurm", project / "slurm")
    (project / "src").symlink_to(CHECKOUT / "src")
    script = job_script.read(Path("slurm/00_hello.slurm"), project)
    site = site_check.Site(queue.find(), project, (script,))

    def facts(old: str, new: str, wait: float = 60.0) -> dict[str, site_check.Fact]:
        file = project / "slurm/site.sh"
        text = file.read_text()
        assert f"\n{old} " in text
        file.write_text(text.replace(f"\n{old} ", f"\n{new} "))
        found = site_check.facts(site, 30, wait, lambda line: None)
        return {fact.name: fact for fact in found if fact.needed and not fact.ok}

    return facts


def test_a_cluster_as_it_is_is_green(cluster):
    try:
        done = cluster.hpml("site", "check", "--learners", "10")
    finally:
        shutil.rmtree(CHECKOUT / "build/site_check", ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "✓ job scripts: sbatch would take 16 of 16" in lines
    (job,) = [line for line in lines if line.startswith("✓ a job on two nodes: started after ")]
    assert " s on n1 and n2; 2 ranks met over gloo in " in job
    assert "✗" not in done.stdout
    assert lines[-1] == "The course runs on this cluster."


@pytest.mark.parametrize(
    ("old", "new", "red", "value", "remedy"),
    [
        ("cpu_partition=", "cpu_partition=nope", "job scripts", "Invalid partition", "sinfo"),
        (
            "modules=()",
            "modules=(nope)",
            "a job on two nodes",
            "module load nope failed",
            "part 2 of",
        ),
        ("conda_environment=hpml", "software=conda", "a job on two nodes", "no conda", "part 2 of"),
        ("network_interface=", "network_interface=nope0", "a job on two nodes", "nope0", "fast"),
        ("data=", "data=/nowhere", "data on n1 and n2", NOT_THERE, "all nodes see"),
    ],
)
def test_a_planted_fault_is_red_with_what_to_do(found, old, new, red, value, remedy):
    facts = found(old, new)
    assert red in facts
    assert value in facts[red].value
    assert remedy in facts[red].remedy


def test_a_line_that_bash_cannot_read_is_all_that_is_said(found):
    facts = found("account=", 'account="a')
    assert list(facts) == ["slurm/site.sh"]
    assert "unexpected EOF" in facts["slurm/site.sh"].value


def test_a_job_that_does_not_start_is_red_and_ended(cluster, found):
    nodes = ("scontrol", "update", "nodename=n[1-3]")
    cluster.run(*nodes, "state=drain", "reason=test")
    try:
        facts = found("account=", "account=", wait=1.0)
    finally:
        cluster.run(*nodes, "state=resume")
    assert facts["a job on two nodes"].value.startswith("has not started: PENDING (")
    assert not cluster.output("squeue", "--noheader", "--name=site_check")


def test_a_job_with_gpus_that_torch_does_not_see_is_red(tmp_path):
    for rank, by in enumerate(("gloo", "gloo")):
        found = {"node": f"n{rank}", "facts": [], "ranks": 2, "by": by, "seconds": 0.2}
        (tmp_path / f"{rank}.json").write_text(json.dumps(found))
    (fact,) = site_check.seen("a job on two nodes", "COMPLETED", 3.0, tmp_path)
    assert (fact.ok, fact.value) == (
        True,
        "started after 3 s on n0 and n1; 2 ranks met over gloo in 0.2 s",
    )
    (fact,) = site_check.seen(site_check.WITH_GPUS, "COMPLETED", 3.0, tmp_path)
    assert (fact.ok, fact.needed) == (False, True)
    assert fact.cost_of_lack == "torch sees no GPU there"


def test_scripts_for_more_nodes_than_there_are_is_a_refusal_not_the_end(
    cluster, found, monkeypatch
):
    def too_few(*_):
        raise UserError("9 nodes are wanted")

    monkeypatch.setattr(job_script, "fitting_options", too_few)
    facts = found("account=", "account=")
    assert facts["job scripts"].value == "sbatch refuses 00_hello.slurm: 9 nodes are wanted"
    assert list(facts) == ["job scripts"]


def test_a_folder_that_is_not_yours_is_one_line(project, found):
    (project / "build").write_text("a file")
    with pytest.raises(UserError, match=r"cannot be written .*: ./hpml copy FOLDER"):
        found("account=", "account=")
