"""02_staging.slurm leaves no copy of the images on any node, however its job ends."""

import re
from pathlib import Path

import pytest

from ..waiting import until

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
]

SHORT = "--epochs 1 --samples 400 --test-samples 100 --batch-size 25 --widths 8,8,8 --threads 1"
LONG = SHORT.replace("--epochs 1", "--epochs 500")
ALONE = ["--ntasks-per-node=1"]


def submitted(cluster, *words: str) -> str:
    return cluster.submit("--cpus-per-task=1", *words)


def staged(cluster, job: str) -> None:
    """Wait until both nodes have a copy."""
    until(lambda: cluster.log_of(job).count("MB staged to") == 2, "two copies")


def copies(cluster, job: str) -> list[str]:
    """What of a job lies in the /tmp of its nodes, which is each node's own."""
    found = []
    for node in ("n1", "n2"):
        root = Path(f"/proc/{cluster.pid(node)}/root/tmp")
        found += [f"{node}: {path.name}" for path in root.glob(f"hpml-{job}*")]
    return found


@pytest.fixture(scope="module")
def overdue(cluster) -> str:
    """A job with a time limit of a minute, the shortest; it runs beside the other tests."""
    return submitted(cluster, "--time=1", *ALONE, "slurm/02_staging.slurm", *LONG.split())


def test_the_nodes_have_the_images_while_ranks_train_on_them(cluster, overdue):
    staged(cluster, overdue)
    assert {name for name in copies(cluster, overdue) if not name.endswith(".lock")} == {
        f"n1: hpml-{overdue}",
        f"n2: hpml-{overdue}",
    }


def test_a_job_that_ends_well_leaves_none(cluster):
    job = submitted(cluster, "slurm/02_staging.slurm", *SHORT.split())
    assert cluster.end_of(job) == "COMPLETED", cluster.log_of(job)
    text = cluster.log_of(job)
    assert "4 ranks × 1 thread, cpu" in text
    assert sorted(re.findall(r"^(n\d): \d+ MB staged to", text, re.M)) == ["n1", "n2"]
    assert copies(cluster, job) == []
    assert (cluster.project() / "build/jobs" / job / "history.json").is_file()


def test_a_job_that_fails_leaves_none(cluster):
    job = submitted(cluster, *ALONE, "slurm/02_staging.slurm", "--no-such-option")
    assert cluster.end_of(job) == "FAILED"
    assert "no-such-option" in cluster.log_of(job)
    assert copies(cluster, job) == []


def test_a_job_that_is_cancelled_leaves_none(cluster):
    job = submitted(cluster, *ALONE, "slurm/02_staging.slurm", *LONG.split())
    staged(cluster, job)
    cluster.output("scancel", job)
    assert cluster.end_of(job) == "CANCELLED"
    until(lambda: copies(cluster, job) == [], "no copy to be left")


def test_a_job_that_meets_its_time_limit_leaves_none(cluster, overdue):
    assert cluster.end_of(overdue) == "TIMEOUT"
    until(lambda: copies(cluster, overdue) == [], "no copy to be left")
