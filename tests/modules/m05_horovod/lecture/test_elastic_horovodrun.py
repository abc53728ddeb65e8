"""Elastic Horovod on two hosts, which are two names of this machine: one is lost, one goes on."""

import time
from contextlib import contextmanager

import psutil
import pytest

from hpml.errors import UserError
from hpml.modules.m05_horovod.lecture import elastic_horovodrun
from hpml.ranks import flavour

WHY = flavour.missing("horovod")
pytestmark = [
    pytest.mark.measures,  # a clock
    pytest.mark.skipif(WHY is not None, reason=str(WHY)),
]

# Four steps of two workers in an epoch, and eight of one
SHORT = {"HPML_EPOCHS": "8", "HPML_IMAGES": "200", "HPML_BATCH": "25"}


def test_the_worker_that_is_left_goes_on_from_the_last_commit_and_nothing_stays_behind():
    with elastic_horovodrun.job(elastic_horovodrun.SCRIPT, environment=SHORT) as job:
        assert job.wait_for("step 10: committed", limit=300), job.log.read_text()
        processes = [job.process, *job.process.children(recursive=True)]
        assert job.lose("127.0.0.1") == 1
        code = job.wait(limit=300)
        said = job.said
        everything = job.log.read_text()
    assert said[0] == "workers: 2, from step 0", everything
    (again,) = [line for line in said if line.startswith("workers: 1, from step")]
    assert int(again.split()[-1]) >= 10
    assert said[-1].startswith("workers: 1, done after step"), everything
    assert int(said[-1].split()[-1]) > int(again.split()[-1])
    assert code == 0, everything
    assert len(processes) >= 3
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


def test_what_is_not_done_is_ended(monkeypatch, tmp_path):
    sleeps = tmp_path / "sleeps.py"
    sleeps.write_text("import time\nprint('awake')\ntime.sleep(300)\n")
    monkeypatch.setattr(elastic_horovodrun, "words", lambda most, discover: [])
    with elastic_horovodrun.job(sleeps) as job:
        deadline = time.monotonic() + 60
        while "awake" not in job.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert job.process.poll() is None
        assert not job.wait_for("anything", limit=0.2)
    assert not psutil.pid_exists(job.process.pid)


class PlayedJob:
    """A job without processes; `said` is what its workers print once step 20 is waited for."""

    said = ("workers: 2, from step 0", "step 20: committed", "workers: 1, from step 20", "done")

    def __init__(self) -> None:
        self.done: list[str] = []

    def wait_for(self, text: str, limit: float) -> bool:
        self.done.append(text)
        return text in self.said

    def lose(self, host: str) -> None:
        self.done.append(f"{host} is lost")

    def wait(self, limit: float) -> int:
        self.done.append("waited for")
        return 3


@pytest.fixture
def played(monkeypatch):
    job = PlayedJob()

    @contextmanager
    def start(script, environment=None):
        assert (script, environment) == (elastic_horovodrun.SCRIPT, SHORT)
        yield job

    monkeypatch.setattr(elastic_horovodrun, "job", start)
    return job


def test_the_second_host_is_lost_after_the_commit(played):
    loss = elastic_horovodrun.lose_second_host(20, environment=SHORT)
    assert played.done == ["step 20: committed", "127.0.0.1 is lost", "waited for"]
    assert (loss.exit_code, loss.printed, loss.went_on_from) == (3, played.said, [20])


def test_without_that_commit_no_host_is_lost(played):
    with pytest.raises(UserError, match="step 30 was not committed within 5 s"):
        elastic_horovodrun.lose_second_host(30, environment=SHORT, limit=5)
    assert played.done == ["step 30: committed"]
