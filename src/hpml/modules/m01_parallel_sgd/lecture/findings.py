"""What the lecture on parallel SGD finds in its measurements: numbers, and whether they hold."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hpml.modules.m01_parallel_sgd.lecture.updates import Update
from hpml.ranks.evidence import Evidence
from hpml.trace.messages import messages

BUSY = "That can be: the ranks share this machine's cores with other programs."
CLOSE = 1.05  # times the best: not to be told apart


class Rules(NamedTuple):
    """Last losses: `alone` of one worker, `ends` of the learning-rate rules that train."""

    alone: float
    ends: Mapping[str, float]
    diverged: Sequence[str]

    @property
    def nearest(self) -> tuple[str, float]:
        return min(self.ends.items(), key=lambda end: end[1])

    @property
    def farthest(self) -> tuple[str, float]:
        return max(self.ends.items(), key=lambda end: end[1])

    @property
    def held(self) -> bool:
        return bool(self.diverged and self.ends) and self.nearest[1] > self.alone


def rules(runs: Mapping[str, Sequence[tuple[float, float]]], diverged: float) -> Rules:
    """Learning-rate rules: points (samples, loss) by run, the first being one worker.

    A run diverges where its loss is above `diverged`, or not a number.
    """
    alone, *names = runs
    broken = [n for n in names if not all(loss <= diverged for _, loss in runs[n])]
    ends = {name: runs[name][-1][1] for name in names if name not in broken}
    return Rules(runs[alone][-1][1], ends, broken)


def waited(evidence: Evidence, rank: int) -> float:
    """Share of a synchronous run that `rank` was in an all-reduce. The run returns its log."""
    log = evidence.values[0]
    calls = [c for c in evidence.ranks[rank].calls if c.operation == "all_reduce"][-len(log) :]
    return sum(call.finished - call.issued for call in calls) / log[-1]["at"]


class WithoutWaiting(NamedTuple):
    """Seconds of a synchronous run of `steps` steps, `long`, and of an asynchronous one, `short`;
    how many gradients each worker computed in the second."""

    held: bool
    steps: int
    long: float
    short: float
    counts: Sequence[int]


def without_waiting(together: Evidence, apart: Evidence, slow: int) -> WithoutWaiting:
    """A synchronous and an asynchronous run of as many gradients, with one slow worker."""
    long, short = (evidence.values[0][-1]["at"] for evidence in (together, apart))
    made = [update["worker"] for update in apart.values[0]]
    counts = [made.count(worker) for worker in range(together.world_size)]
    held = short < long and counts[slow] == min(counts)
    return WithoutWaiting(held, len(together.values[0]), long, short, counts)


class Staleness(NamedTuple):
    """Of one worker and of four, the mean staleness of an update, and the mean distance of the
    first weight from the best one in the second half of the run."""

    late: Sequence[float]
    away: Sequence[float]

    @property
    def held(self) -> bool:
        return 2 < self.late[1] < 4 and self.away[1] > 1.5 * self.away[0]


def staleness(alone: Sequence[Update], four: Sequence[Update], lowest: float) -> Staleness:
    """Asynchronous runs of one worker and of four.

    `lowest` is the first weight, that of the steeper direction, where the loss is least.
    """
    logs = alone, four
    late = [float(np.mean([update.staleness for update in log])) for log in logs]
    away = [
        float(np.mean([abs(update.weights[0] - lowest) for update in log[len(log) // 2 :]]))
        for log in logs
    ]
    return Staleness(late, away)


class Pair(NamedTuple):
    """Loss above the least of two runs after `until` seconds, with waiting and without; the
    second's median staleness."""

    until: float
    waiting: float
    going_on: float
    late: float


class SameTime(NamedTuple):
    """Pairs by name, and those in which the run without waiting is ahead, level or behind."""

    pairs: Mapping[str, Pair]
    ahead: Sequence[str]
    level: Sequence[str]
    behind: Sequence[str]

    @property
    def held(self) -> bool:
        return "4, one slow" in self.ahead and "4 workers" in self.behind


def in_the_same_time(
    waiting: Mapping[str, Sequence[Update]],
    going_on: Mapping[str, Sequence[Update]],
    excess: Callable[..., float],
) -> SameTime:
    """Synchronous and asynchronous runs of several workers, by the same names: which is nearer?

    `excess` is the loss above the least, of the weights. Of each pair both are looked at when the
    quicker one ends: the mean over the last tenth of the updates that were made until then.
    """
    pairs, places = {}, {"ahead": [], "level": [], "behind": []}
    for name in going_on:
        if len({update.worker for update in going_on[name]}) == 1:
            continue  # one worker: nothing is stale
        until = min(log[name][-1].at for log in (waiting, going_on))
        ends = [_late_excess(log[name], until, excess) for log in (waiting, going_on)]
        ratio = ends[1] / ends[0]
        places["ahead" if ratio < 0.9 else "behind" if ratio > 1.1 else "level"].append(name)
        late = float(np.median([update.staleness for update in going_on[name]]))
        pairs[name] = Pair(until, ends[0], ends[1], late)
    return SameTime(pairs, **places)


def _late_excess(log: Sequence[Update], until: float, excess: Callable[..., float]) -> float:
    made = [update for update in log if update.at <= until] or log[:1]
    last = made[-max(3, len(made) // 10) :]
    return float(np.mean([excess(*update.weights) for update in last]))


def as_due(received: float, due: float) -> bool:
    """Whether the bytes that came in over a link are those of the algorithm, and some headers."""
    return due <= received < 1.2 * due


def crossing(seen: Mapping[str, Evidence]) -> dict[str, tuple[int, float, float]]:
    """Of each algorithm's launch: messages, MB sent in all, MB that node 0 sent to other nodes.

    The messages' bytes are those of the tensors; the last number is the kernel's count.
    """
    found = {}
    for name, evidence in seen.items():
        sent = messages(evidence)
        across = evidence.uplinks[0].sent_bytes / 1e6
        found[name] = len(sent), sum(message.nbytes for message in sent) / 1e6, across
    return found


class Least(NamedTuple):
    """The algorithms with the `fewest` messages, and those with the `least` bytes across."""

    held: bool
    fewest: Sequence[str]
    least: Sequence[str]


def least_crossing(found: Mapping[str, tuple[int, float, float]]) -> Least:
    """Of what `crossing` found. It holds where all send as many bytes, and hierarchical is among
    those with the least across, and the ring is not."""
    fewest = near({name: float(count) for name, (count, _, _) in found.items()}, 1.0)
    least = near({name: across for name, (_, _, across) in found.items()}, 1.15)
    total = [mb for _, mb, _ in found.values()]
    equal = max(total) - min(total) < 0.01 * total[0]
    return Least(equal and "hierarchical" in least and "ring" not in least, fewest, least)


def near(values: Mapping[str, float], factor: float = CLOSE) -> list[str]:
    """The names whose value is at most `factor` times the least."""
    least = min(values.values())
    return [name for name, value in values.items() if value <= factor * least]


def listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"; empty where there are none."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
