"""Ranks on CPUs of their own or on one: how long each computes, and how long it waits for a CPU.

Each rank is a process that counts to the same number. Linux accounts for both times: the first two
numbers of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst of its sources).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.figure import Figure

from hpml.machine.topology import cpu_list

COUNT = 60_000_000  # about half a second of one core
LIMIT = 120.0  # seconds
# Begins when it is told to, so that no rank's start is measured
RANK = """
import json, os, sys
cpus, count = json.loads(sys.argv[1])
if cpus:
    os.sched_setaffinity(0, cpus)
def times():
    with open("/proc/self/schedstat") as file:
        return [int(word) / 1e9 for word in file.read().split()[:2]]
print("ready", flush=True)
sys.stdin.readline()
before = times()
def work(count):
    for _ in range(count):
        pass
work(count)
print(json.dumps([now - then for now, then in zip(times(), before)]))
"""


@dataclass(frozen=True)
class RankTime:
    """Seconds in which a rank ran, and in which it could have run but had no CPU."""

    running: float
    waiting: float


Placement = Sequence[Iterable[int]]  # the CPUs of each rank; none: wherever Linux likes


def available() -> bool:
    """Whether this process may use two CPUs, and the kernel accounts for waiting."""
    return len(os.sched_getaffinity(0)) > 1 and os.path.exists("/proc/self/schedstat")


def placements() -> dict[str, Placement]:
    """Two ranks: left to Linux, on a CPU each, both on the same CPU."""
    first, second, *_ = sorted(os.sched_getaffinity(0))
    return {
        "not bound": [(), ()],
        f"bound to a CPU each, {first} and {second}": [(first,), (second,)],
        f"both bound to CPU {first}": [(first,), (first,)],
    }


def measure(placements: Mapping[str, Placement], count: int = COUNT) -> dict[str, list[RankTime]]:
    """By placement, the times of each of its ranks, which begin to count together.

    Raises OSError where a CPU is not this process's, subprocess.SubprocessError where a rank fails.
    """
    return {name: _run(placement, count) for name, placement in placements.items()}


def _run(placement: Placement, count: int) -> list[RankTime]:
    ranks = []
    try:
        for cpus in placement:
            words = [sys.executable, "-S", "-c", RANK, json.dumps([list(cpus), count])]
            pipe = subprocess.PIPE
            ranks.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True))
        for rank in ranks:
            if rank.stdout.readline() != "ready\n":
                raise subprocess.SubprocessError(f"a rank bound to {cpu_list(placement[0])} failed")
        for rank in ranks:
            rank.stdin.write("go\n")
            rank.stdin.flush()
        return [RankTime(*json.loads(rank.communicate(timeout=LIMIT)[0])) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def share(times: Sequence[RankTime]) -> float:
    """Which part of their time the ranks waited for a CPU, 0 to 1."""
    waiting = sum(one.waiting for one in times)
    return waiting / (waiting + sum(one.running for one in times))


class Waits(NamedTuple):
    """The share of their time that two ranks wait: left to Linux, with a CPU each, on one CPU; and
    seconds of a rank on one CPU, on average. `held`: there they wait, and apart clearly less."""

    held: bool
    free: float
    apart: float
    together: float
    ran: float
    waited: float


def waits(measured: Mapping[str, Sequence[RankTime]]) -> Waits:
    """From the placements in the order of `placements`."""
    last = list(measured.values())[-1]
    free, apart, together = map(share, measured.values())
    ran = sum(one.running for one in last) / len(last)
    waited = sum(one.waiting for one in last) / len(last)
    held = together > 0.35 and apart < 0.8 * together
    return Waits(held, free, apart, together, ran, waited)


def picture(measured: Mapping[str, Sequence[RankTime]], *, title: str = "") -> Figure:
    """A bar for each rank of each placement: seconds of running, then of waiting.

    The title says what the ranks of the last placement waited, unless there is another.
    """
    name, last = list(measured.items())[-1]
    title = title or f"{name[0].upper()}{name[1:]}, ranks wait for it {share(last):.0%} of the time"
    figure = Figure(
        figsize=(9, 0.42 * sum(map(len, measured.values())) + 1.4), layout="constrained"
    )
    axes = figure.subplots()
    rows = [(f"{name}: rank {rank}", one) for name, times in measured.items()
            for rank, one in enumerate(times)]  # fmt: skip
    heights = range(len(rows))
    running = [one.running for _, one in rows]
    look = {"edgecolor": "black", "linewidth": 0.6, "height": 0.7}
    axes.barh(heights, running, color="#56b4e9", label="runs", **look)
    axes.barh(
        heights,
        [one.waiting for _, one in rows],
        left=running,
        color="#f5d58f",
        hatch="///",
        label="waits for a CPU",
        **look,
    )
    axes.set_yticks(heights, [name for name, _ in rows], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.legend(loc="best", fontsize=9)
    axes.set_title(title, loc="left", fontsize=11)
    return figure
