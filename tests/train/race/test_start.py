"""A try in processes of its own: what came of it is kept, whatever way it ended."""

import contextlib
import os
import signal
import threading
from dataclasses import replace

import psutil
import pytest

from hpml.train.race import start, tries

from .made_tries import TINY

EASY = replace(TINY, accuracy=0.0)  # reached at the first test
HARD = replace(TINY, accuracy=1.0)


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(start, "LOOKED", 0.01)


def children() -> list[psutil.Process]:
    """The processes of a try that are there; one that has ended and waits to be reaped is not."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if start.MODULE in " ".join(each.cmdline()):
                found.append(each)
    return found


def test_a_try_that_reaches_its_goal_is_followed_and_kept():
    seen = []
    one = start.run_try(EASY, report=seen.append)
    assert (one.status, one.images, one.synthetic, one.device) == ("reached", 64, True, "cpu")
    assert 0 < one.first_step < one.seconds
    assert [len(each.points) for each in seen] == [0, 1]
    assert tries.read() == ([one], 0)


def test_on_two_ranks_with_all_turned_on_it_is_one_try_that_did_not_reach_its_goal():
    on = replace(HARD.off, loader="ahead", layout="channels_last", precision="bf16", ranks=2)
    one = start.run_try(HARD, replace(on, bucket_mib=1.0))
    assert (one.status, one.why) == ("below", "")
    assert [point.images for point in one.points] == [64, 128]
    assert tries.read() == ([one], 0)


def test_a_failure_is_kept_with_its_reason(tmp_path):
    one = start.run_try(EASY, data=str(tmp_path))
    assert one.status == "failed"
    assert str(tmp_path) in one.why
    assert tries.read() == ([one], 0)


def test_without_a_compiler_the_reason_names_one(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    one = start.run_try(EASY, replace(EASY.off, compile=True))
    assert one.status == "failed"
    assert one.why.startswith("--compile: no-such-compiler is not installed")


def test_an_interrupt_is_kept_as_such_and_leaves_no_process():
    def interrupt(one: tries.Try) -> None:
        assert children()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start.run_try(HARD, report=interrupt)
    assert [one.status for one in tries.read()[0]] == ["interrupted"]
    assert children() == []


def test_processes_that_are_killed_are_a_failure():
    def kill(one: tries.Try) -> None:
        for each in children():
            os.kill(each.pid, signal.SIGKILL)

    one = start.run_try(HARD, report=kill)
    assert one.status == "failed"
    assert one.why.startswith("killed by signal 9")


def test_a_try_that_takes_too_long_is_ended():
    one = start.run_try(replace(HARD, limit=0.01))
    assert (one.status, one.why) == ("failed", "it was not over after 0 s")
    assert children() == []
    assert threading.active_count() < 50
