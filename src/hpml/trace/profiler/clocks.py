"""One clock for the traces of several ranks, from the collectives that they have in common.

No rank can have the sum of an all-reduce before the last rank has begun it (Lamport 1978, Time,
clocks, and the ordering of events in a distributed system: a message is received after it was
sent). So with each all-reduce, the end on rank a comes after the start on rank b, on any true
clock:

    end_a + offset_a >= start_b + offset_b

Each is a bound on a difference of two offsets, and so is a path of several of them (a, b, c): the
tightest bounds are shortest paths. The truth lies between them, whatever the network did, as NTP's
offset lies between those of its fastest exchange (Mills 1991, Internet time synchronization: the
Network Time Protocol). Within them, the estimate is the one for which ranks leave a collective
together.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpml.errors import UserError
from hpml.trace.profiler.collectives import Collective, collectives
from hpml.trace.profiler.trace import Step, Trace

# Each rank's result depends on every rank's input: not so for a broadcast or a reduce.
SYMMETRIC = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "barrier")
# Seconds: what is left of a time since 1970 in a float64 of seconds, and the tick of a trace.
RESOLUTION = 1e-6


@dataclass(frozen=True)
class Clocks:
    """Seconds to add to each rank's times, so that all are on rank 0's clock; shape [W]."""

    offset: np.ndarray
    low: np.ndarray  # the offset is this or more
    high: np.ndarray  # the offset is this or less

    @property
    def error(self) -> np.ndarray:
        """The estimate is off by at most this, in seconds."""
        return np.maximum(self.high - self.offset, self.offset - self.low)

    def __str__(self) -> str:
        rows = ["rank   add to its clock   off by at most"]
        for rank, (offset, error) in enumerate(zip(self.offset, self.error, strict=True)):
            rows.append(f"{rank:>4}   {offset * 1e3:+13.3f} ms   {error * 1e3:11.3f} ms")
        return "\n".join(rows)


def clocks(found: Sequence[Collective]) -> Clocks:
    """The offsets between the clocks of ranks that made these collectives.

    Each clock is taken to run at the same speed: over the seconds of a trace, quartz clocks drift
    apart by some 10 µs for each second.

    Raises UserError where the bounds contradict each other: collectives that are not the same ones,
    or clocks that were set while the profiler ran. And where there is no collective that all ranks
    wait for.
    """
    found = [one for one in found if one.operation in SYMMETRIC]
    if not found:
        raise UserError("these traces have no collective that all ranks wait for: no common clock")
    starts = np.stack([one.start for one in found])
    ends = np.stack([one.end for one in found])
    # bound[a, b] >= offset_b - offset_a
    bound = (ends[:, :, None] - starts[:, None, :]).min(axis=0) + RESOLUTION
    size = bound.shape[0]
    bound[np.arange(size), np.arange(size)] = 0.0
    for middle in range(size):
        bound = np.minimum(bound, bound[:, middle : middle + 1] + bound[middle : middle + 1, :])
    high, low = bound[0], -bound[:, 0]
    if (high < low).any() or (np.diag(bound) < 0).any():
        rank = int(np.argmax(low - high))
        raise UserError(
            f"rank {rank}: its collectives end before others have begun them, on any clock: "
            "give traces of one run, of the same steps"
        )
    together = np.median(ends[:, :1] - ends, axis=0)
    return Clocks(np.clip(together, low, high), low, high)


def align(traces: Sequence[Trace]) -> tuple[list[Trace], Clocks]:
    """These ranks' traces on rank 0's clock, and by how much each was moved."""
    estimate = clocks(collectives(traces))
    moved = [moved_by(trace, by) for trace, by in zip(traces, estimate.offset, strict=True)]
    return moved, estimate


def moved_by(trace: Trace, seconds: float) -> Trace:
    """The trace as a clock that is `seconds` ahead would have recorded it."""
    links, allocations = trace.links, trace.allocations
    return dataclasses.replace(
        trace,
        start=trace.start + seconds,
        steps=tuple(Step(s.number, s.start + seconds, s.end + seconds) for s in trace.steps),
        links=dataclasses.replace(
            links, forward=links.forward + seconds, backward=links.backward + seconds
        ),
        allocations=dataclasses.replace(allocations, at=allocations.at + seconds),
    )
