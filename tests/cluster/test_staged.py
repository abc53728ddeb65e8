"""slurm/staged.py alone: what a job left on a node when it was killed, the next one removes."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpml.paths import CHECKOUT

from ..waiting import until

IMAGES = 3  # files in place of CIFAR-10's
# In place of hpml.data, which takes a second to import
SMALL = """
import runpy, sys
from types import SimpleNamespace
from pathlib import Path
sources = SimpleNamespace(load=lambda: SimpleNamespace(folder=Path({images!r})))
sys.modules["hpml.data"] = SimpleNamespace(sources=sources)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PATIENCE = 60.0  # seconds


@pytest.fixture
def node(tmp_path):
    """`node(job, *command)` starts a rank of a job on a node whose disk is `node.disk`."""
    images, disk, started = tmp_path / "images", tmp_path / "disk", []
    images.mkdir()
    for number in range(IMAGES):
        (images / f"{number}.bin").write_bytes(bytes(100))

    def start(job: int, *command: str, rank: int = 0) -> subprocess.Popen:
        own = {"SLURM_JOB_ID": str(job), "SLURM_LOCALID": str(rank), "HPML_NODE_DISK": str(disk)}
        process = subprocess.Popen(
            [sys.executable, "-c", SMALL.format(images=str(images)), "slurm/staged.py", *command],
            cwd=CHECKOUT,
            env={**os.environ, **own},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(process)
        return process

    start.disk = disk
    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def copies(disk: Path) -> list[str]:
    return sorted(path.name for path in disk.iterdir())


def running(node, job: int, *, rank: int = 0) -> subprocess.Popen:
    """A rank that reads its copy, until it is killed."""
    reading = node.disk.parent / f"{job}.{rank}"
    process = node(job, "sh", "-c", f"ls $HPML_DATA/images > {reading}; sleep 600", rank=rank)
    until(reading.exists, reading.name)
    return process


def kill(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_job_removes_its_copy(node):
    reading = node.disk.parent / "seen"
    job = node(7, "sh", "-c", f"ls $HPML_DATA/images > {reading}; exit 3")
    assert job.wait(PATIENCE) == 3
    assert reading.read_text().split() == [f"{number}.bin" for number in range(IMAGES)]
    assert copies(node.disk) == []


def test_the_copy_of_a_job_that_was_killed_is_gone_after_the_next_one(node):
    kill(running(node, 7))
    assert copies(node.disk) == ["hpml-7", "hpml-7.lock"]
    assert node(8, "true").wait(PATIENCE) == 0
    assert copies(node.disk) == []


def test_what_was_half_copied_is_gone_too(node):
    (node.disk / "hpml-7.part").mkdir(parents=True)
    (node.disk / "hpml-7.lock").touch()
    assert node(8, "true").wait(PATIENCE) == 0
    assert copies(node.disk) == []


@pytest.mark.parametrize("killed", ["neither", "first rank"])
def test_the_copy_of_a_job_that_runs_stays(node, killed):
    first = running(node, 7)
    running(node, 7, rank=1)
    if killed == "first rank":
        kill(first)
    assert node(8, "true").wait(PATIENCE) == 0
    assert copies(node.disk) == ["hpml-7", "hpml-7.lock"]


def test_files_of_others_stay(node):
    node.disk.mkdir()
    (node.disk / "hpml-here.lock").touch()
    (node.disk / "7.lock").touch()
    assert node(8, "true").wait(PATIENCE) == 0
    assert copies(node.disk) == ["7.lock", "hpml-here.lock"]
