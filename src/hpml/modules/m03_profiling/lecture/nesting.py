"""Which event is inside which: a function that calls another, on the same thread."""

from dataclasses import dataclass

import numpy as np

from hpml.trace.profiler.trace import Trace


@dataclass(frozen=True)
class Nesting:
    """For each of a trace's n events, in the trace's order."""

    parent: np.ndarray  # int32 [n], the innermost event around it on its thread; -1: none
    depth: np.ndarray  # int32 [n], how many events are around it
    self_seconds: np.ndarray  # float64 [n], its duration without the events directly inside it
    repeated: np.ndarray  # bool [n], an event of the same name is around it


def nesting(trace: Trace) -> Nesting:
    """How the events of each thread of `trace` are nested."""
    parent = np.full(len(trace), -1, np.int32)
    depth = np.zeros(len(trace), np.int32)
    repeated = np.zeros(len(trace), bool)
    for thread in np.unique(trace.thread):
        here = np.flatnonzero(trace.thread == thread)
        rows = zip(
            here.tolist(),
            trace.start[here].tolist(),
            trace.end[here].tolist(),
            trace.name[here].tolist(),
            strict=True,
        )
        open_: list[tuple[int, float, int]] = []
        for i, start, end, name in rows:
            # Half a nanosecond: times are rounded, and one event often ends where the next starts.
            while open_ and open_[-1][1] <= start + 5e-10:
                open_.pop()
            if open_:
                parent[i], depth[i] = open_[-1][0], len(open_)
                repeated[i] = any(name == outer[2] for outer in open_)
            open_.append((i, end, name))
    inside = np.flatnonzero(parent >= 0)
    outer = parent[inside]
    covered = np.minimum(trace.end[inside], trace.end[outer]) - trace.start[inside]
    by_parent = np.bincount(outer, weights=covered, minlength=len(trace))
    return Nesting(parent, depth, np.maximum(trace.duration - by_parent, 0.0), repeated)
