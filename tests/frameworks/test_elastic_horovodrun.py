"""Elastic Horovod on two hosts, which are two names of this machine: one is lost, one goes on."""

import time

import psutil
import pytest

from hpml.frameworks import elastic_horovodrun
from hpml.ranks import flavour

WHY = flavour.missing("horovod")
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))

# Four steps of two workers in an epoch, and eight of one
SHORT = {"HPML_EPOCHS": "8", "HPML_IMAGES": "200", "HPML_BATCH": "25"}


def test_the_worker_that_is_left_goes_on_from_the_last_commit_and_nothing_stays_behind():
    with elastic_horovodrun.job("elastic_torch", environment=SHORT) as job:
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
    monkeypatch.setattr(elastic_horovodrun, "HERE", tmp_path)
    (tmp_path / "sleeps.py").write_text("import time\nprint('awake')\ntime.sleep(300)\n")
    monkeypatch.setattr(elastic_horovodrun, "words", lambda most, discover: [])
    with elastic_horovodrun.job("sleeps") as job:
        deadline = time.monotonic() + 60
        while "awake" not in job.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert job.process.poll() is None
        assert not job.wait_for("anything", limit=0.2)
    assert not psutil.pid_exists(job.process.pid)
