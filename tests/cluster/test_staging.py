"""02_staging.slurm leaves no copy of the images on any node, however its job ends."""

import re
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("cluster")

SHORT = "--epochs 1 --samples 400 --test-samples 100 --batch-size 25 --widths 8,8,8 --threads 1"
LONG = SHORT.replace("--epochs 1", "--epochs 500")
ALONE = ["--ntasks-per-node=1"]
PATIENCE = 150.0  # seconds


def submitted(cluster, *words: str) -> str:
    folder = cluster.project()
    (job,) = cluster.output(
        "sbatch", "--parsable", f"--chdir={folder}", "--cpus-per-task=1", *words
    )
    return job


def facts(cluster, job: str) -> dict[str, str]:
    (line,) = cluster.output("scontrol", "--oneliner", "show", "job", job)
    return dict(re.findall(r"(\w+)=(\S*)", line))


def log(cluster, job: str) -> str:
    path = Path(facts(cluster, job)["StdOut"])
    return path.read_text() if path.exists() else ""


def wait_for(condition, what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.2)


def ended(cluster, job: str) -> str:
    """The state of a job that has ended on all of its nodes."""
    unfinished = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}
    wait_for(lambda: facts(cluster, job)["JobState"] not in unfinished, f"job {job} did not end")
    return facts(cluster, job)["JobState"]


def copies(cluster, job: str) -> list[str]:
    """What of a job lies in the /tmp of its nodes, which is each node's own."""
    found = []
    for node in ("n1", "n2"):
        root = Path(f"/proc/{cluster.pid(node)}/root/tmp")
        found += [f"{node}: {path.name}" for path in root.glob(f"hpml-{job}*")]
    return found


@pytest.fixture(scope="module")
def overdue(wide) -> str:
    """A job with a time limit of a minute, the shortest; it runs beside the other tests."""
    return submitted(wide, "--time=1", *ALONE, "slurm/02_staging.slurm", *LONG.split())


def test_the_nodes_have_the_images_while_ranks_train_on_them(wide, overdue):
    wait_for(lambda: log(wide, overdue).count("MB staged to") == 2, "nothing was staged")
    assert {name for name in copies(wide, overdue) if not name.endswith(".lock")} == {
        f"n1: hpml-{overdue}",
        f"n2: hpml-{overdue}",
    }


def test_a_job_that_ends_well_leaves_none(wide):
    job = submitted(wide, "slurm/02_staging.slurm", *SHORT.split())
    assert ended(wide, job) == "COMPLETED", log(wide, job)
    text = log(wide, job)
    assert "4 ranks × 1 thread, cpu" in text
    assert sorted(re.findall(r"^(n\d): \d+ MB staged to", text, re.M)) == ["n1", "n2"]
    assert copies(wide, job) == []
    assert (wide.project() / "build/jobs" / job / "history.json").is_file()


def test_a_job_that_fails_leaves_none(wide):
    job = submitted(wide, *ALONE, "slurm/02_staging.slurm", "--no-such-option")
    assert ended(wide, job) == "FAILED"
    assert "no-such-option" in log(wide, job)
    assert copies(wide, job) == []


def test_a_job_that_is_cancelled_leaves_none(wide):
    job = submitted(wide, *ALONE, "slurm/02_staging.slurm", *LONG.split())
    wait_for(lambda: log(wide, job).count("MB staged to") == 2, "nothing was staged")
    wide.output("scancel", job)
    assert ended(wide, job) == "CANCELLED"
    wait_for(lambda: copies(wide, job) == [], f"left: {copies(wide, job)}")


def test_a_job_that_meets_its_time_limit_leaves_none(wide, overdue):
    assert ended(wide, overdue) == "TIMEOUT"
    wait_for(lambda: copies(wide, overdue) == [], f"left: {copies(wide, overdue)}")
