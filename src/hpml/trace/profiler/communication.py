"""How much of a rank's communication its own work hides, and how much of the rest is waiting.

A collective is in flight from its call to its end. While it is, the rank either computes, and
then the communication is hidden; or it does nothing else, and then it is exposed. An exposed moment
is *waiting* while no collective in flight has been called by all ranks: nothing can be added up
yet, however fast the network is. The rest is *transfer*. (Geimer et al. 2010, The Scalasca
performance toolset architecture, names the first "Wait at N x N".)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpml.errors import UserError
from hpml.trace.profiler import intervals
from hpml.trace.profiler.collectives import collectives
from hpml.trace.profiler.phases import phases
from hpml.trace.profiler.trace import Step, Trace


@dataclass(frozen=True)
class Communication:
    """One rank's communication: moments as unions of intervals, shape [n, 2], in seconds."""

    rank: int
    in_flight: np.ndarray
    computing: np.ndarray  # the rank runs operators or kernels, or loads
    waiting: np.ndarray  # exposed, and some rank has not come yet
    transfer: np.ndarray  # exposed, and all ranks have come
    steps: int  # how many profiled steps these moments are of

    @property
    def hidden(self) -> float:
        """Seconds in flight behind the rank's own work."""
        return intervals.length(intervals.intersect(self.in_flight, self.computing))

    @property
    def exposed(self) -> float:
        """Seconds in flight in which the rank did nothing else."""
        return self.waited + self.transferred

    @property
    def exposed_per_step(self) -> float:
        return self.exposed / self.steps

    @property
    def hidden_share(self) -> float:
        """How much of the time in flight is hidden, from 0 to 1; 0 where nothing was sent."""
        return self.hidden / (self.hidden + self.exposed) if len(self.in_flight) else 0.0

    @property
    def waited(self) -> float:
        return intervals.length(self.waiting)

    @property
    def transferred(self) -> float:
        return intervals.length(self.transfer)


def communication(traces: Sequence[Trace], step: int | None = None) -> tuple[Communication, ...]:
    """Of each rank, in one profiled step or in all of them. The traces are on one clock (`align`).

    Raises UserError where the ranks recorded different collectives, or no such step.
    """
    return tuple(
        _within(one, steps(trace, step))
        for one, trace in zip(_everywhere(traces), traces, strict=True)
    )


def communication_by_step(traces: Sequence[Trace]) -> dict[int, tuple[Communication, ...]]:
    """Of each rank in each profiled step of rank 0, by the step's number; see `communication`."""
    everywhere = _everywhere(traces)
    return {
        number: tuple(
            _within(one, steps(trace, number))
            for one, trace in zip(everywhere, traces, strict=True)
        )
        for number in (step.number for step in traces[0].steps)
    }


def _everywhere(traces: Sequence[Trace]) -> list[Communication]:
    """Of each rank, in its steps and between them."""
    found = collectives(traces)
    ranks = []
    for rank, trace in enumerate(traces):
        of_all = phases(trace)
        # From its call on: Gloo may have no thread free for it yet
        called = _union([(one.issued[rank], one.end[rank]) for one in found])
        in_flight = intervals.join(of_all.communication, called)
        # When some collective is on its way that all ranks have called
        moving = _union([(one.arrived, one.end[rank]) for one in found])
        exposed = intervals.subtract(in_flight, of_all.computing)
        waiting = intervals.subtract(exposed, moving)
        transfer = intervals.intersect(exposed, moving)
        parts = (in_flight, of_all.computing, waiting, transfer)
        ranks.append(Communication(rank, *parts, len(trace.steps)))
    return ranks


def _within(one: Communication, chosen: Sequence[Step]) -> Communication:
    parts = (one.in_flight, one.computing, one.waiting, one.transfer)
    if len(chosen) == 1:  # a search, where an intersection looks at the whole trace
        within = [intervals.clip(part, chosen[0].start, chosen[0].end) for part in parts]
    else:
        window = _union([(step.start, step.end) for step in chosen])
        within = [intervals.intersect(part, window) for part in parts]
    in_flight, computing, waiting, transfer = within
    return Communication(one.rank, in_flight, computing, waiting, transfer, len(chosen))


def steps(trace: Trace, step: int | None = None) -> tuple[Step, ...]:
    """The profiled steps, or the one of that number. Raises UserError where there is none."""
    chosen = tuple(s for s in trace.steps if step is None or s.number == step)
    if not chosen:
        there = ", ".join(str(s.number) for s in trace.steps) or "none: call prof.step()"
        raise UserError(f"no profiled step {'' if step is None else step}: there is {there}")
    return chosen


def _union(pairs: list[tuple[float, float]]) -> np.ndarray:
    both = np.array(pairs, float).reshape(-1, 2)
    return intervals.union(both[:, 0], both[:, 1])
