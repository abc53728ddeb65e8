"""Which rank the others wait for, since when, and in which phase it is slower."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpml.errors import UserError
from hpml.trace.profiler.collectives import Collective, collectives
from hpml.trace.profiler.communication import communication_by_step
from hpml.trace.profiler.phases import PHASES
from hpml.trace.profiler.shares import shares_of_steps
from hpml.trace.profiler.trace import Trace

OWN = (*PHASES, "other")  # the parts of a step that a rank spends by itself


@dataclass(frozen=True)
class Straggler:
    """The verdict on W ranks, with what it rests on; K profiled steps."""

    rank: int | None  # None: no rank is late enough to be blamed
    since: int | None  # the first profiled step in which it is slow
    late: float  # seconds for each step since then that the others wait for it (median)
    phase: str | None  # in which it spends more than the others (median)
    more: float  # seconds more for each step since then
    blamed: int  # the rank with most time in communication, which a glance would blame
    lateness: np.ndarray  # seconds, [W, K]: after the last of the others came
    waited: np.ndarray  # seconds, [W, K]: exposed, before the last rank came
    phases: dict[str, np.ndarray]  # seconds of work by phase, [W, K]
    steps: tuple[int, ...]

    def __str__(self) -> str:
        if self.rank is None:
            return "No rank holds up the others: who comes last changes, or comes hardly later."
        more = "" if self.phase is None else f", with {self.more * 1e3:.0f} ms more in {self.phase}"
        return (
            f"Rank {self.rank}, since step {self.since}: it comes {self.late * 1e3:.0f} ms after "
            f"the others in each step{more}."
        )


def straggler(traces: Sequence[Trace], least: float = 0.1) -> Straggler:
    """Find the straggler of ranks on one clock (`align`).

    In each collective the rank that calls it last makes the others wait, and how long it alone
    costs them is its distance to the last but one: so much would be gained if it were on time. To
    be blamed a rank has to cost at least the share `least` of a step (medians since it is slow).

    Raises UserError for a single rank, and where ranks recorded different steps or collectives.
    """
    if len(traces) < 2:
        raise UserError("a straggler is late beside others: give the traces of two ranks or more")
    numbers = tuple(step.number for step in traces[0].steps)
    if any(tuple(step.number for step in trace.steps) != numbers for trace in traces):
        raise UserError("these ranks recorded different steps: profile the same ones on all")
    found = collectives(traces)
    lateness = _lateness(found, len(traces), numbers)
    ranks = communication_by_step(traces).values()
    waited = np.array([[one.waited for one in of_step] for of_step in ranks]).T
    spent = np.array([[one.exposed for one in of_step] for of_step in ranks]).T
    of_steps = [shares_of_steps(trace) for trace in traces]
    phases = {
        name: np.array([[getattr(of_step[n], name) for n in numbers] for of_step in of_steps])
        for name in OWN
    }
    blamed = int(spent.sum(axis=1).argmax())
    length = np.array([[s.end - s.start for s in trace.steps] for trace in traces])
    begins = [_change(late) for late in lateness]
    # What a rank costs in most steps since it is slow: one long hiccup of another counts for little
    cost = [np.median(late[k:]) * (len(late) - k) for late, k in zip(lateness, begins, strict=True)]
    rank = int(np.argmax(cost))
    begin = begins[rank]
    nobody = Straggler(None, None, 0.0, None, 0.0, blamed, lateness, waited, phases, numbers)
    if np.median(lateness[rank, begin:]) < least * np.median(length[rank, begin:]):
        return nobody
    others = np.arange(len(traces)) != rank
    excess = {name: own[rank] - np.median(own[others], axis=0) for name, own in phases.items()}
    more = {name: float(np.median(series[begin:])) for name, series in excess.items()}
    phase = max(more, key=more.__getitem__)
    known = more[phase] > np.median(lateness[rank, begin:]) / 4
    if known:  # The phase shows the step more clearly: lateness has the noise of all phases in it
        begin = _change(excess[phase])
    return Straggler(
        rank,
        numbers[begin],
        float(np.median(lateness[rank, begin:])),
        phase if known else None,
        float(np.median(excess[phase][begin:])),
        blamed,
        lateness,
        waited,
        phases,
        numbers,
    )


def _lateness(found: Sequence[Collective], world_size: int, numbers: tuple[int, ...]) -> np.ndarray:
    """Seconds by rank and step that the others wait because of this rank alone; [W, K]."""
    late = np.zeros((world_size, len(numbers)))
    for k, number in enumerate(numbers):
        # Collectives of which the next was called before the last had its result: a rank that is
        # 30 ms late for three buckets in flight is 30 ms late, not 90.
        together, done = np.zeros(world_size), np.full(world_size, -np.inf)
        released = np.zeros(world_size)
        for one in sorted((c for c in found if c.step == number), key=lambda c: c.arrived):
            *others, last = np.argsort(one.issued, kind="stable")
            if (one.issued[others] >= done[others]).all():
                late[:, k] += together
                together[:] = 0.0
                # A rank that got the result of the one before later than others is late through
                # no fault of its own
                released = np.where(np.isfinite(done), done, 0.0)
            own = one.issued[last] - max(released[last] - released[others[-1]], 0.0)
            together[last] = max(together[last], own - one.issued[others[-1]])
            done = np.maximum(done, one.end)
        late[:, k] += together
    return late


def _change(series: np.ndarray) -> int:
    """Where the series rises to a higher level, by least squares; 0 where it does not."""
    best, place = float(((series - series.mean()) ** 2).sum()), 0
    total = best
    for k in range(1, len(series) - 1):  # a single step is not a level
        before, after = series[:k], series[k:]
        rest = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
        # Half of the variation has to be the change: noise has none that explains it
        if rest < min(best, 0.5 * total) and after.mean() > 2 * before.mean():
            best, place = rest, k
    return place
