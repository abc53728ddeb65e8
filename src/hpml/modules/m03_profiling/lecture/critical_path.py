"""The critical path of a step over ranks: what would have to be faster for the step to end earlier.

Walked back from the end of the rank that ends last (Böhme et al. 2012, Scalable critical-path based
performance analysis). Where that rank does nothing but wait for a collective, the path goes through
the collective to the moment when its last rank came, and on with that rank: the time that others
waited is on no path.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpml.trace.profiler import intervals
from hpml.trace.profiler.collectives import Collective, collectives
from hpml.trace.profiler.communication import communication, steps
from hpml.trace.profiler.phases import PHASES, phases
from hpml.trace.profiler.trace import Trace

OTHER = "other"


@dataclass(frozen=True)
class Segment:
    """A piece of the path: a phase on one rank, or the transfer of a collective. In seconds."""

    rank: int
    what: str  # a phase, "other", or the collective's operation
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def critical_path(traces: Sequence[Trace], step: int) -> tuple[Segment, ...]:
    """The path of one profiled step, first piece first; the traces are on one clock (`align`).

    Pieces follow each other without a gap, from the moment when the first rank of the path began
    the step to the end of the rank that ends it last. A collective's piece is the transfer, after
    its last rank came; it names the rank that waited for it.

    Raises UserError where the ranks recorded different collectives, or no such step.
    """
    left = [one for one in collectives(traces) if one.step == step]
    window = [steps(trace, step)[0] for trace in traces]
    exposed = [
        intervals.subtract(one.in_flight, one.computing) for one in communication(traces, step)
    ]
    on_host = [phases(trace).on_host for trace in traces]
    rank = max(range(len(traces)), key=lambda r: window[r].end)
    now = window[rank].end
    pieces: list[Segment] = []
    while now > window[rank].start:
        one = _released_by(left, exposed[rank], rank, now)
        since = window[rank].start if one is None else one.end[rank]
        pieces += reversed(_phases(on_host[rank], rank, since, now))
        now = since
        while one is not None:  # through collectives that queue for the network
            left = [other for other in left if other is not one]
            one, rank, now, piece = _through(one, left, rank, now)
            pieces.append(piece)
    return tuple(piece for piece in reversed(pieces) if piece.seconds > 0)


def table(path: Sequence[Segment], least: float = 0.01) -> str:
    """The pieces of a path as lines of text; those below the share `least` of it are added up."""
    whole = sum(piece.seconds for piece in path)
    lines = [f"{'rank':<6}{'what':<16}{'ms':>8}{'of the path':>14}"]
    rest = 0.0
    for piece in path:
        if piece.seconds < least * whole:
            rest += piece.seconds
            continue
        share = f"{piece.seconds / whole:.0%}"
        lines.append(f"{piece.rank:<6}{piece.what:<16}{1e3 * piece.seconds:>8.1f}{share:>14}")
    lines.append(
        f"{'':<6}{'shorter ones':<16}{1e3 * rest:>8.1f}{rest / whole if whole else 0:>14.0%}"
    )
    return "\n".join(lines)


def _released_by(
    found: Sequence[Collective], exposed: np.ndarray, rank: int, now: float
) -> Collective | None:
    """The last collective before `now` whose end let this rank go on: it ended in a wait."""
    ended = [one for one in found if one.end[rank] <= now]
    for one in sorted(ended, key=lambda c: c.end[rank], reverse=True):
        end = one.end[rank]
        if ((exposed[:, 0] < end) & (end <= exposed[:, 1])).any():
            return one
    return None


def _through(
    one: Collective, left: Sequence[Collective], rank: int, now: float
) -> tuple[Collective | None, int, float, Segment]:
    """Back through a collective: what the path comes from, on which rank, when; and the piece.

    It comes from the rank that called it last; or, where a thread of Gloo was not free until
    another collective ended, from that one.
    """
    begins = int(one.start.argmax())
    queued = [
        other for other in left if one.arrived < other.end[begins] <= min(one.start[begins], now)
    ]
    if queued:
        before = max(queued, key=lambda other: other.end[begins])
        since = float(before.end[begins])
        return before, begins, since, Segment(rank, one.operation, since, now)
    since = min(one.arrived, now)  # clocks may be off by their error
    return None, int(one.issued.argmax()), since, Segment(rank, one.operation, since, now)


def _phases(on_host: dict[str, np.ndarray], rank: int, since: float, until: float) -> list[Segment]:
    """What this rank's program did from `since` to `until`, by phase."""
    found = [
        (float(start), float(end), name)
        for name in PHASES
        for start, end in intervals.clip(on_host[name], since, until)
    ]
    pieces, now = [], since
    for start, end, name in sorted(found):
        if start > now:
            pieces.append(Segment(rank, OTHER, now, start))
        pieces.append(Segment(rank, name, start, end))
        now = end
    if now < until:
        pieces.append(Segment(rank, OTHER, now, until))
    return pieces
