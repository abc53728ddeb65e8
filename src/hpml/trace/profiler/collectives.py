"""Which collective of one rank is which of another: matched by step, name and order.

PyTorch records a collective twice. The program's thread has the operator that issues it
("c10d::allreduce_"); where it then runs there is "gloo:all_reduce" on one of Gloo's threads, or
NCCL's kernel ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)") on the GPU. Gloo has two threads for a
process group, so a third collective waits for one of the first two before it starts.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hpml.errors import UserError
from hpml.trace.profiler.trace import Trace

# Both records of an operation under one name: letters alone, "allreduce".
NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "reducescatter": "reduce_scatter",
}
_KERNEL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")


@dataclass(frozen=True)
class Collective:
    """One collective as W ranks recorded it: seconds, each rank's on its own clock, shape [W]."""

    operation: str  # "all_reduce"
    step: int | None  # the profiled step in which rank 0 issued it
    issued: np.ndarray  # its program called it; of a kernel: it began to run
    start: np.ndarray  # it began to run
    end: np.ndarray  # the rank had its result
    elements: int | None = None  # in the tensors of a rank; None: shapes were not recorded

    @property
    def arrived(self) -> float:
        """When the last rank issued it. Before that moment no rank can have the result."""
        return float(self.issued.max())


def collectives(traces: Sequence[Trace]) -> tuple[Collective, ...]:
    """The collectives of these ranks, in the order in which rank 0 issued them.

    Raises UserError where ranks recorded different ones: the n-th all-reduce of one would not be
    the n-th of another.
    """
    found = [list(_of_one(trace)) for trace in traces]
    counts = [_counts(one) for one in found]
    for rank, count in enumerate(counts):
        for key in sorted(count.keys() | counts[0].keys(), key=str):
            if count.get(key, 0) != counts[0].get(key, 0):
                step, operation = key
                raise UserError(
                    f"step {step}: rank 0 recorded {counts[0].get(key, 0)} {operation}, rank "
                    f"{rank} {count.get(key, 0)}: record the same steps on all ranks"
                )
    ordered = [sorted(one, key=lambda c: (str(c[:2]), c[2])) for one in found]
    together = [_together(same) for same in zip(*ordered, strict=True)]
    return tuple(sorted(together, key=lambda c: c.issued[0]))


# Step, operation, issued, start, end, elements
_One = tuple[int | None, str, float, float, float, int | None]


def _together(same: Sequence[_One]) -> Collective:
    """One collective, by each rank's record of it."""
    issued, start, end = np.array([c[2:5] for c in same], float).T
    return Collective(same[0][1], same[0][0], issued, start, end, same[0][5])


def _of_one(trace: Trace) -> Iterator[_One]:
    ran = _kernels(trace)
    # A kernel's call says when the program was there; its stream comes to it later, in its order
    issued = {} if ran else _issued(trace)
    ran = ran or _on_hosts(trace)
    starts = np.array([step.start for step in trace.steps])
    for operation, places in ran.items():
        calls = issued.get(operation, [])
        for number, place in enumerate(places):
            start = trace.start[place]
            # Without its own record of the call: it was issued when it started, at the latest
            call = min(trace.start[calls[number]], start) if len(calls) == len(places) else start
            step = int(np.searchsorted(starts, call, side="right")) - 1
            name = NAMES.get(operation, operation)
            number_of_step = trace.steps[step].number if step >= 0 else None
            end, elements = trace.end[place], _elements(trace, place)
            yield number_of_step, name, call, start, end, elements


def _elements(trace: Trace, place: int) -> int | None:
    """How many numbers the event's tensors have: "[[64, 512], [512]]" are 33,280."""
    text = trace.shapes[trace.shape[place]] if trace.shape is not None and trace.shapes else ""
    tensors = re.findall(r"\[([\d, ]+)\]", text)
    return sum(math.prod(map(int, sizes.split(","))) for sizes in tensors) if tensors else None


def _counts(found: list[_One]) -> dict[tuple[int | None, str], int]:
    counts: dict[tuple[int | None, str], int] = defaultdict(int)
    for step, operation, *_ in found:
        counts[step, operation] += 1
    return counts


def _kernels(trace: Trace) -> dict[str, list[int]]:
    kernels = {k: _letters(m[1]) for k, n in enumerate(trace.names) if (m := _KERNEL.match(n))}
    return _places(trace, kernels)


def _on_hosts(trace: Trace) -> dict[str, list[int]]:
    hosts = {
        k: _letters(name.partition(":")[2])
        for k, name in enumerate(trace.names)
        if name.startswith(("gloo:", "nccl:"))
    }
    return _places(trace, hosts)


def _issued(trace: Trace) -> dict[str, list[int]]:
    calls = {
        k: _letters(name.removeprefix("c10d::"))
        for k, name in enumerate(trace.names)
        if name.startswith("c10d::")
    }
    return _places(trace, calls)


def _places(trace: Trace, operations: dict[int, str]) -> dict[str, list[int]]:
    """By operation the places of events of these names, in the order of their start."""
    places: dict[str, list[int]] = defaultdict(list)
    if operations:
        wanted = np.flatnonzero(np.isin(trace.name, list(operations)))
        for place in wanted[np.argsort(trace.start[wanted], kind="stable")]:
            places[operations[int(trace.name[place])]].append(int(place))
    return places


def _letters(name: str) -> str:
    """ "all_reduce", "allreduce_", "_allgather_base_", "AllReduce": as in NAMES."""
    return re.sub(r"[^a-z]|base|coalesced|into|tensor", "", name.lower())
