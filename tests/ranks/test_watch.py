"""When a launch that gets nowhere is ended: the time limit, and a machine that stood still."""

import os
import subprocess
import time

import pytest

from hpml.ranks.parent import movement
from hpml.ranks.parent.ledger import RankLog
from hpml.ranks.parent.watch import QUIET_UNSEEN, Watch, Watched


def test_time_in_which_the_machine_stood_still_is_not_the_ranks():
    watch = Watch([RankLog(0, 0.0)], Watched("<drive>"), 5.0, [], 0.0, False, "torch", None)
    assert watch.look(0.1) is None
    assert watch.look(60.0) is None
    looks = [watch.look(60.0 + step / 10) for step in range(1, 49)]
    assert set(looks) == {None}
    late = [watch.look(64.8 + step / 10) for step in range(1, 4)]
    assert late[-1].kind == "limit"


@pytest.mark.parametrize(("without_core", "ends"), [(0.0, 5.0), (3.0, 8.0), (1000.0, 15.0)])
def test_time_without_a_core_is_not_the_ranks_up_to_twice_the_limit(
    monkeypatch, without_core, ends
):
    asked = []
    monkeypatch.setattr(
        movement, "seconds_without_core", lambda pid: asked.append(pid) or without_core
    )
    watch = Watch([RankLog(0, 0.0)], Watched("<drive>"), 5.0, [], 0.0, False, "torch", None)
    watch.forked(lambda: [os.getpid()], lambda: [os.getpid()])
    step = next(n for n in range(1, 1000) if watch.look(n / 10) is not None)
    assert step / 10 == pytest.approx(ends, abs=0.15)
    assert set(asked) == {os.getpid()}


def test_who_returns_after_the_limit_for_want_of_a_core_has_returned(monkeypatch):
    monkeypatch.setattr(movement, "seconds_without_core", lambda pid: 3.0)
    logs = [RankLog(0, 0.0), RankLog(1, 0.0)]
    watch = Watch(logs, Watched("<drive>"), 5.0, [], 0.0, False, "torch", None)
    watch.forked(lambda: [os.getpid()] * 2, lambda: [os.getpid()] * 2)
    assert {watch.look(step / 10) for step in range(1, 71)} == {None}
    logs[0].end = "returned"
    monkeypatch.setattr(movement, "seconds_without_core", lambda pid: 0.0)
    assert watch.look(7.1) is None
    logs[1].end = "returned"
    assert watch.look(20.0) is None


@pytest.mark.parametrize(("meet_at", "kind"), [(99.0, "hang"), (6.5, None)])
def test_ranks_that_meet_late_have_met(meet_at, kind):
    logs = [RankLog(rank, 0.0, begun=True) for rank in range(2)]
    for log in logs:
        log.take(["call", 0, "init_process_group", [0, 1], 1, "", [], 0, "", None, 0.0], 0.0)
        log.take(["wait", 0, 0.0], 0.0)
    watch = Watch(logs, Watched("<drive>"), 60.0, [-1, -1], 0.0, False, "torch", None)
    watch.stacks = lambda only=None: {}
    watch.forked(lambda: [os.getpid()] * 2, lambda: [os.getpid()] * 2)
    found = None
    for step in range(1, 90):  # of 0.1 s; this process is at work all the time
        if step / 10 == meet_at:
            for log in logs:
                log.take(["done", 0, 0.0], step / 10)
        found = found or watch.look(step / 10)
    assert (found and found.kind) == kind


@pytest.mark.parametrize(("port", "ends"), [("29501", "hang"), ("29500", None)])
def test_ranks_that_name_different_places_are_not_waited_for(port, ends):
    logs = [RankLog(rank, 0.0, begun=True) for rank in range(2)]
    for log, at in zip(logs, ("29500", port), strict=True):
        call = ["call", 0, "init_process_group", [0, 1], 1, "", [], 0, "", None, 0.0, "", 0]
        asked = [log.rank, 2, f"localhost:{at}", "10.0.0.1", at]
        log.take([*call, None, None, 0, *asked], 0.0)
        log.take(["wait", 0, 0.0], 0.0)
    watch = Watch(logs, Watched("<drive>"), 60.0, [-1, -1], 0.0, linked=True, quiet=QUIET_UNSEEN)
    watch.stacks = lambda only=None: {}
    watch.forked(lambda: [os.getpid()] * 2, lambda: [os.getpid()] * 2)
    looks = [watch.look(step / 10) for step in range(1, 50)]
    found = next(filter(None, looks), None)
    assert (found and found.kind) == ends


@pytest.mark.measures
def test_two_processes_on_one_core_wait_for_it():
    core = str(min(os.sched_getaffinity(0)))
    both = [
        subprocess.Popen(["taskset", "-c", core, "yes"], stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if all(movement.seconds_without_core(one.pid) > 0.1 for one in both):
                break
            time.sleep(0.05)
        assert all(movement.seconds_without_core(one.pid) > 0.1 for one in both)
    finally:
        for one in both:
            one.kill()
            one.wait()
    assert movement.seconds_without_core(both[0].pid) == 0.0
