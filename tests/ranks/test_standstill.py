"""A reply that is kept back until nobody can go on by itself: whatever a rank waits with."""

import os
import sys

import cloudpickle
import pytest
import torch
import torch.distributed as dist

from hpml.ranks import Reply, ask, launch
from hpml.ranks.evidence import Call
from hpml.ranks.parent import standstill
from hpml.ranks.parent.ledger import RankLog

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel shows it on Linux")

AFTER, PATIENCE = 0.05, 15.0  # less than a launch's limit
A_WHILE = 0.3  # seconds


def in_an_event():
    import threading

    threading.Event().wait(A_WHILE)


def in_a_sleep():
    import time

    time.sleep(A_WHILE)


def in_a_loop():
    import time

    until = time.monotonic() + A_WHILE
    while time.monotonic() < until:
        pass


def in_a_thread():
    import threading
    import time

    thread = threading.Thread(target=time.sleep, args=[A_WHILE])
    thread.start()
    thread.join()


def until_an_alarm():
    import signal
    import threading

    lock = threading.Lock()
    signal.signal(signal.SIGALRM, lambda *_: lock.release())
    signal.setitimer(signal.ITIMER_REAL, A_WHILE)
    lock.acquire()
    lock.acquire()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def on_a_socket_with_a_deadline():
    import contextlib
    import socket
    import struct

    mine, _other = socket.socketpair()
    deadline = struct.pack("ll", 0, int(1e6 * A_WHILE))
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, deadline)
    with contextlib.suppress(BlockingIOError):
        mine.recv(1)


def not_at_all():
    pass


class HoldsRank0:
    """Rank 0's reply is kept back from when rank 1 is about to wait."""

    def __init__(self):
        self.waits = set()

    def __call__(self, rank, request):
        if request == "waited":
            return [Reply(1)]
        self.waits.add(rank)
        if len(self.waits) < 2:
            return []
        return [Reply(1), Reply(0, after=AFTER, patience=PATIENCE)]


def drive(way):
    rank = dist.get_rank()
    message = torch.zeros(1)
    ask("about to wait")
    if rank == 0:
        dist.send(message, 1)
    else:
        way()
        ask("waited")
        dist.recv(message, 0)


@pytest.mark.parametrize(
    "way",
    [
        in_an_event,
        in_a_sleep,
        in_a_loop,
        in_a_thread,
        until_an_alarm,
        on_a_socket_with_a_deadline,
        not_at_all,
    ],
    ids=lambda way: way.__name__,
)
def test_a_reply_waits_for_whoever_goes_on_by_itself_and_no_longer(way):
    evidence = launch(drive, 2, inputs=[way, way], serve=HoldsRank0(), proxied=True)
    assert evidence.diagnosis is None, evidence.diagnosis
    released = evidence.ranks[0].asked[0].answered
    begun, waited = evidence.ranks[1].asked
    assert released >= waited.answered
    assert released < begun.at + PATIENCE


def test_patience_ends():
    def never_stands_still():
        import time

        ask("about to wait")
        if dist.get_rank() == 0:
            dist.send(torch.zeros(1), 1)
            return
        request = dist.irecv(torch.zeros(1), 0)
        while not request.is_completed():
            time.sleep(0.01)

    class Briefly(HoldsRank0):
        def __call__(self, rank, request):
            replies = super().__call__(rank, request)
            return [Reply(r.rank, after=r.after, patience=min(r.patience, 0.2)) for r in replies]

    evidence = launch(never_stands_still, 2, serve=Briefly(), proxied=True)
    assert evidence.diagnosis is None, evidence.diagnosis
    held = evidence.ranks[0].asked[0]
    assert held.answered >= evidence.ranks[1].asked[0].at + AFTER + 0.2


def test_without_proxies_a_reply_waits_for_nobody():
    evidence = launch(drive, 2, inputs=[in_an_event] * 2, serve=HoldsRank0())
    assert evidence.diagnosis is None, evidence.diagnosis


@pytest.mark.parametrize(
    ("call", "still"),
    [
        (Call(1, "recv", (0, 1), 1, "", (), 0, "", 1, 0.0, peer=0), True),
        (Call(1, "recv", (1,), 1, "", (), 0, "", 1, 0.0, peer=1), False),
        (Call(1, "monitored_barrier", (0, 1), 1, "", (), 0, "", 1, 0.0), False),
        (Call(1, "monitored_barrier", (0, 1), 1, "", (), 0, "", 1, 0.0, finished=0.1), True),
    ],
)
def test_calls_that_may_have_a_deadline_of_their_own_are_no_standstill(call, still, monkeypatch):
    monkeypatch.setattr(standstill, "waits_for_others", lambda *_: True)
    logs = [RankLog(0, 0.0), RankLog(1, 0.0)]
    logs[1].calls.append(call)
    assert standstill.stand_still(logs, [7, 8]) == still


def test_a_process_that_is_gone_waits():
    assert standstill.waits_for_others(2**22 + 1)


@pytest.mark.parametrize(
    ("error", "waits"),
    [(PermissionError, False), (FileNotFoundError, True), (ProcessLookupError, True)],
)
def test_a_process_that_hides_itself_is_not_known_to_wait(error, waits, monkeypatch):
    def hidden(_pid):
        raise error

    monkeypatch.setattr(standstill, "_handled", hidden)
    assert standstill.waits_for_others(os.getpid()) == waits
