"""Ranks that stay after their drive. In a notebook: tests/notebook/test_kept_ranks.py."""

import os
import socket
import stat

import pytest

from hpml.ranks import launch
from hpml.ranks.evidence import ANYONE, Traffic
from hpml.ranks.parent.ledger import RankLog
from hpml.ranks.parent.reports import Reports
from hpml.ranks.parent.settled import settled
from hpml.ranks.parent.staying import Staying
from hpml.ranks.parent.watch import Watched

WATCHED = Watched("<test>")


def call(index, operation, sequence=1, group=(0, 1), root=None, peer=None, at=1.0):
    numbers = [index, operation, list(group), sequence, "float32", [2], 8, "", 7, at]
    return ["call", *numbers, "", 0, root, peer]


def log_of(rank, *calls, open_ones=()):
    log = RankLog(rank, started=0.0)
    for event in calls:
        log.take(event, now=2.0)
        if event[1] not in open_ones:
            log.take(["done", event[1], 1.5], now=2.0)
    return log


@pytest.mark.parametrize(
    ("zero", "one", "over"),
    [
        ([call(0, "all_reduce")], [call(0, "all_reduce")], True),
        ([call(0, "all_reduce")], [], False),
        ([call(0, "broadcast", root=0)], [call(0, "all_reduce")], False),
        ([call(0, "barrier", group=[0])], [], True),
        ([call(0, "send", peer=1)], [call(0, "recv", peer=0)], True),
        ([call(0, "send", peer=1)], [], False),
        ([call(0, "send", peer=1)], [call(0, "recv", peer=ANYONE)], False),
    ],
)
def test_calls_are_over_when_all_ranks_that_they_take_have_made_them(zero, one, over):
    assert settled([log_of(0, *zero), log_of(1, *one)]) is over


def test_an_open_call_is_not_over():
    both = [log_of(rank, call(0, "all_reduce"), open_ones=[0] * (rank == 1)) for rank in (0, 1)]
    assert not settled(both)


def test_the_next_log_goes_on_with_earlier_calls_until_they_are_forgotten():
    log = log_of(0, call(0, "barrier"), call(1, "all_reduce"), open_ones=[1]).next(started=10.0)
    assert [(c.index, c.line, c.issued) for c in log.calls] == [(-1, None, -9.0), (0, None, -9.0)]
    log.take(["wait", 1, 10.5], now=1.0)
    assert log.pending.operation == "all_reduce"
    log.take(["done", 1, 10.6], now=1.0)
    log.take(call(2, "broadcast", root=0, at=10.7), now=1.0)
    assert [(c.index, c.line, c.operation) for c in log.calls[2:]] == [(1, 7, "broadcast")]
    assert [c.operation for c in log.evidence(1.0).calls] == ["broadcast"]
    log.forget_earlier()
    log.take(["done", 1, 10.8], now=1.0)  # once more, of a call that is forgotten
    assert [c.finished for c in log.calls] == [None]
    with pytest.raises(ValueError, match="call 9 was never made"):
        log.take(["done", 9, 10.8], now=1.0)


def test_traffic_is_that_of_the_last_run():
    reports = Reports()
    reports.take({"traffic": {"ranks": [[1, 2, 3, 4]], "nodes": []}})
    assert reports.traffic_of("ranks") == [Traffic(1, 2, 3, 4)]
    reports.begin_again()
    reports.take({"traffic": {"ranks": [[11, 12, 13, 14]], "nodes": []}, "paused": True})
    assert reports.traffic_of("ranks") == [Traffic(10, 10, 10, 10)]
    assert reports.traffic_of("nodes") == []


def sum_up():
    """A drive that adds up what it is given: made here, so that it is sent by value."""
    total = 0

    def drive(number):
        nonlocal total
        total += number
        if total > 100:
            raise ValueError(total)
        return total

    return drive


def test_a_drive_holds_what_it_held():
    staying = Staying()
    try:
        first = launch(sum_up(), 2, inputs=[1, 2], staying=staying, watched=WATCHED)
        assert list(first.values) == [1, 2]
        assert list(staying.again([10, 20], watched=WATCHED).values) == [11, 22]
        failed = staying.again([100, 0], watched=WATCHED).diagnosis
        assert (failed.kind, failed.ranks) == ("raised", (0,))
        assert failed.sentence.startswith("rank 0 raised ValueError: 111")
        assert list(staying.again([-100, -20], watched=WATCHED).values) == [11, 2]
    finally:
        staying.stop()
    assert not staying.here
    assert staying.pids == ()
    with pytest.raises(RuntimeError, match="no ranks have stayed"):
        staying.again([1, 2], watched=WATCHED)


def test_a_fork_of_the_process_does_not_end_them():
    staying = Staying()
    try:
        launch(sum_up(), 1, inputs=[1], staying=staying, watched=WATCHED)
        pid = os.fork()
        if pid == 0:
            staying.stop()
            os._exit(0)
        os.waitpid(pid, 0)
        assert list(staying.again([1], watched=WATCHED).values) == [2]
    finally:
        staying.stop()


def test_ranks_that_could_not_be_set_up_do_not_stay():
    staying = Staying()
    try:
        seen = launch(sum_up(), 2, inputs=[1, 2], threads=0, process_group=False, staying=staying)
        assert "set_num_threads" in seen.diagnosis.sentence
        assert not staying.here
    finally:
        staying.stop()


def test_ranks_that_return_too_much_stay():
    staying = Staying()
    drive = (lambda: lambda size: b"x" * size)()
    try:
        seen = launch(drive, 1, inputs=[2**26], staying=staying, watched=WATCHED)
        assert seen.diagnosis.sentence.endswith("cannot be sent: more than 64 MiB at once")
        assert staying.again([3], watched=WATCHED).values == (b"xxx",)
    finally:
        staying.stop()


def spoil():
    """A drive that sends what is no event: made here, so that it is sent by value."""

    def drive(_):
        for fd in map(int, os.listdir("/proc/self/fd")):
            try:
                if stat.S_ISSOCK(os.fstat(fd).st_mode):
                    with socket.socket(fileno=os.dup(fd)) as found:
                        found.send(b"\xc1" * 10)
            except OSError:
                continue

    return drive


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks for its channel in /proc")
def test_ranks_that_cannot_be_understood_do_not_stay():
    staying = Staying()
    try:
        seen = launch(spoil(), 1, inputs=[0], process_group=False, staying=staying, watched=WATCHED)
        assert "malformed event" in seen.diagnosis.sentence
        assert not staying.here
    finally:
        staying.stop()
