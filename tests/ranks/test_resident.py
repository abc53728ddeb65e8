"""A rank's peak memory is what the kernel counts, whatever the rank says or does about it."""

import gc
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from hpml.ranks import launch
from hpml.ranks.supervisor import resident
from hpml.ranks.supervisor.resident import Count

MIB = 2**20
NOISE = 3 * MIB  # more than was ever seen, see evidence.RankEvidence

pytestmark = [
    pytest.mark.measures,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts it on Linux"),
]


def taken(evidence):
    assert evidence.diagnosis is None, evidence.diagnosis
    return [rank.peak_bytes for rank in evidence.ranks]


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("mebibytes", [0, 16, 64])
def test_it_is_what_a_rank_has_allocated(mebibytes, proxied):
    evidence = launch(
        lambda rank: torch.ones(mebibytes * MIB // 4).sum(),
        2,
        inputs=[0, 1],
        proxied=proxied,
        count_memory=True,
    )
    for peak in taken(evidence):
        assert mebibytes * MIB - NOISE < peak < mebibytes * MIB + NOISE


def test_what_is_freed_does_not_add_up():
    def drive():
        for _ in range(4):
            torch.ones(16 * MIB // 4)

    (peak,) = taken(launch(drive, 1, count_memory=True))
    assert 16 * MIB - NOISE < peak < 16 * MIB + NOISE


def test_shared_memory_counts():
    def drive():
        shared = torch.empty(32 * MIB // 4).share_memory_()
        shared.fill_(1.0)

    (peak,) = taken(launch(drive, 1, count_memory=True))
    assert 32 * MIB - NOISE < peak < 32 * MIB + NOISE


def test_inputs_and_the_way_through_a_proxy_are_not_the_ranks_own():
    def drive(tensor):
        dist.all_reduce(tensor)
        dist.broadcast(tensor[::2], 0)

    inputs = [torch.ones(32 * MIB // 4) for _ in range(2)]
    evidence = launch(drive, 2, inputs=inputs, proxied=True, count_memory=True)
    # The strided half of it is made contiguous on its way
    assert all(peak < 16 * MIB + NOISE for peak in taken(evidence))


def test_a_rank_that_is_killed_has_its_peak():
    def drive():
        held = torch.ones(32 * MIB // 4)
        os.kill(os.getpid(), signal.SIGKILL)
        return held

    evidence = launch(drive, 1, count_memory=True)
    assert evidence.diagnosis.kind == "killed"
    assert 32 * MIB - NOISE < evidence.ranks[0].peak_bytes < 32 * MIB + NOISE


@pytest.mark.parametrize("proxied", [False, True])
def test_a_rank_that_reports_a_peak_is_refused(proxied):
    def drive():
        from hpml.ranks.channel import EventSender

        torch.ones(32 * MIB // 4)
        (send,) = (one for one in gc.get_objects() if isinstance(one, EventSender))
        send(["peak", 0])
        time.sleep(10)

    evidence = launch(drive, 1, proxied=proxied, count_memory=True)
    assert evidence.diagnosis.kind == "refused"
    assert evidence.ranks[0].peak_bytes > 32 * MIB - NOISE


def test_a_rank_that_sets_its_peak_back_is_seen():
    def drive():
        held = torch.ones(32 * MIB // 4)
        time.sleep(0.1)
        del held
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    evidence = launch(drive, 1, count_memory=True)
    assert evidence.ranks[0].set_back
    assert 32 * MIB - NOISE < evidence.ranks[0].peak_bytes < 32 * MIB + NOISE


def test_a_rank_that_lets_go_of_its_libraries_wins_nothing():
    def drive():
        import ctypes

        madvise = ctypes.CDLL(None).madvise
        held = torch.ones(32 * MIB // 4)
        with open("/proc/self/maps") as maps:
            for line in maps:
                bounds, rights, *_, path = line.split()
                if "libtorch_cpu" in path and rights.startswith("r-x"):
                    low, high = (int(bound, 16) for bound in bounds.split("-"))
                    madvise(ctypes.c_void_p(low), ctypes.c_size_t(high - low), 4)
        return held.sum()

    (peak,) = taken(launch(drive, 1, count_memory=True))
    assert peak > 32 * MIB - NOISE


def test_a_process_that_is_gone_has_no_count():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    count = Count(process.pid)
    count.begin()
    count.look()
    assert count.peak_bytes is None


@pytest.mark.parametrize(("fall", "noted"), [(MIB // 2, False), (4 * MIB, True)])
def test_a_peak_that_falls_by_some_pages_was_set_back_by_nobody(monkeypatch, fall, noted):
    child = subprocess.Popen(["sleep", "60"])
    try:
        count = Count(child.pid)
        count.begin()
        count.look()
        peak = resident.look(child.pid)
        monkeypatch.setattr(resident, "look", lambda pid: replace(peak, peak=peak.peak + 8 * MIB))
        count.look()
        lower = replace(peak, peak=peak.peak + 8 * MIB - fall)
        monkeypatch.setattr(resident, "look", lambda pid: lower)
        count.look()
        assert count.set_back == noted
    finally:
        child.kill()
        child.wait()
