"""What a training program was doing when: the phases of a step, as sets of intervals.

A phase is known by a name. Either the program marked it with `record_function`, or PyTorch marks it
by itself: the fetch of a batch (`enumerate(DataLoader)#...`), the optimizer (`Optimizer.step#...`),
each node of autograd's graph (`autograd::engine::evaluate_function: ...`), and the forward of
DistributedDataParallel. Where one name is inside another, the inner one counts. Without a mark,
forward is the time from the first to the last operator that autograd later runs backward.
"""

from dataclasses import dataclass

import numpy as np

from hpml.errors import UserError
from hpml.trace.profiler import intervals
from hpml.trace.profiler.intervals import NOTHING
from hpml.trace.profiler.trace import Trace

PHASES = ("loading", "transforms", "forward", "backward", "optimizer")
OWN_NAMES = (
    ("enumerate(DataLoader)#", "loading"),
    ("Optimizer.step#", "optimizer"),
    ("DistributedDataParallel.forward", "forward"),
    ("autograd::engine::evaluate_function", "backward"),
)
AUTOGRAD, ZERO_GRAD = "autograd::engine::evaluate_function", "Optimizer.zero_grad#"
COLLECTIVES = ("gloo:", "nccl:", "mpi:", "ucc:", "c10d::", "record_param_comms")
NCCL_KERNELS = ("ncclDevKernel", "ncclKernel", "nccl")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")  # of the host


@dataclass(frozen=True)
class Phases:
    """Sets of intervals (see `hpml.trace.profiler.intervals`) over the whole trace.

    `on_host` is what the main thread was doing. Of a GPU, `on_device` is what it computed, by the
    phase that launched it. `communication` is when a collective was under way; `computing` is when
    this rank computed, which is what communication can hide behind.
    """

    on_host: dict[str, np.ndarray]
    on_device: dict[str, np.ndarray]
    communication: np.ndarray
    computing: np.ndarray


def phases(trace: Trace) -> Phases:
    """The phases in `trace`. Raises UserError where no step was marked."""
    if not trace.steps:
        raise UserError(
            "trace: no step is marked in it: call prof.step() at the end of each step, and "
            "give profile() a schedule"
        )
    on_host = _on_host(trace)
    kernels = trace.of("kernel")
    if kernels.any():
        # A copy computes nothing, so communication behind it is not hidden.
        communication = trace.named(*NCCL_KERNELS) & kernels
        compute = kernels & ~communication
        on_device = _on_device(trace, compute, on_host)
        computing = _time(trace, compute)
    else:
        communication, on_device = trace.named(*COLLECTIVES), {}
        # Python code of the program's own has no operators inside and is work all the same.
        own = (on_host[phase] for phase in ("loading", "transforms"))
        computing = intervals.join(_time(trace, _computing(trace, communication)), *own)
    return Phases(on_host, on_device, _time(trace, communication), computing)


def _time(trace: Trace, which: np.ndarray) -> np.ndarray:
    return intervals.union(trace.start[which], trace.end[which])


def _computing(trace: Trace, collective: np.ndarray) -> np.ndarray:
    """The operators that compute; bool [n].

    An operator that calls a collective may wait for it, and so may one of autograd's nodes: what
    runs inside those is counted, and they are not.
    """
    found = trace.of("cpu_op") & ~collective & ~trace.named(AUTOGRAD)
    for thread in np.unique(trace.thread[collective]):
        here = np.flatnonzero(found & (trace.thread == thread))
        calls = np.sort(trace.start[collective & (trace.thread == thread)])
        inside = np.searchsorted(calls, trace.end[here]) - np.searchsorted(calls, trace.start[here])
        found[here[inside > 0]] = False
    return found


def _on_host(trace: Trace) -> dict[str, np.ndarray]:
    on_main = trace.thread == trace.main_thread
    named = np.full(len(trace.names), -1)
    for i, name in enumerate(trace.names):
        own = next((phase for start, phase in OWN_NAMES if name.startswith(start)), name)
        own = own.strip("# ")  # some programs mark "## forward ##"
        named[i] = PHASES.index(own) if own in PHASES else -1
    kind = np.where(on_main & trace.of("cpu_op", "user_annotation"), named[trace.name], -1)
    marked = np.flatnonzero(kind >= 0)
    pieces, owner = intervals.innermost(trace.start[marked], trace.end[marked])
    kinds = kind[marked[owner]]
    found = {phase: pieces[kinds == i] for i, phase in enumerate(PHASES)}
    left = intervals.union(
        np.array([step.start for step in trace.steps]), np.array([step.end for step in trace.steps])
    )
    left = intervals.subtract(left, intervals.join(*found.values()))
    for phase, unnamed in _unnamed(trace).items():
        part = intervals.intersect(left, unnamed)
        found[phase] = intervals.join(found[phase], part)
        left = intervals.subtract(left, part)
    return found


def _unnamed(trace: Trace) -> dict[str, np.ndarray]:
    """Forward, backward and zero_grad where the program marked nothing.

    Forward and backward take turns: each turn lasts from its first event to its last.
    """
    nodes = np.flatnonzero(trace.named(AUTOGRAD))
    linked = np.sort(trace.links.forward)
    # A link is at its operator's start; the operator is the last one that started before it.
    on_main = np.flatnonzero((trace.thread == trace.main_thread) & trace.of("cpu_op"))
    if len(on_main) and len(linked):
        place = np.searchsorted(trace.start[on_main], linked + 1e-9, "right") - 1
        operators = on_main[np.unique(place[place >= 0])]
    else:
        operators = np.zeros(0, int)
    start = np.concatenate([trace.start[operators], trace.start[nodes]])
    end = np.concatenate([trace.end[operators], trace.end[nodes]])
    backward = np.repeat([False, True], [len(operators), len(nodes)])
    turns = {"forward": NOTHING, "backward": NOTHING}
    if len(start):
        order = np.argsort(start, kind="stable")
        step = np.searchsorted([one.start for one in trace.steps], start[order], "right")
        changes = np.flatnonzero((np.diff(backward[order]) != 0) | (np.diff(step) != 0)) + 1
        first = np.concatenate([[0], changes])
        until = np.maximum.reduceat(end[order], first)
        is_backward = backward[order][first]
        for phase, chosen in (("forward", ~is_backward), ("backward", is_backward)):
            turns[phase] = intervals.union(start[order][first][chosen], until[chosen])
    return turns | {"optimizer": _time(trace, trace.named(ZERO_GRAD))}


def _on_device(
    trace: Trace, compute: np.ndarray, on_host: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the GPU computed, by the phase that launched it."""
    launches = np.flatnonzero(trace.of("cuda_runtime", "cuda_driver") & (trace.correlation != 0))
    launches = launches[np.argsort(trace.correlation[launches], kind="stable")]
    kernels = np.flatnonzero(compute)
    if len(launches):
        place = np.searchsorted(trace.correlation[launches], trace.correlation[kernels])
        launch = launches[np.minimum(place, len(launches) - 1)]
        known = trace.correlation[launch] == trace.correlation[kernels]
    else:
        launch, known = kernels, np.zeros(len(kernels), bool)
    at, found, left = trace.start[launch], {}, known
    for phase, time in on_host.items():
        i = np.searchsorted(time[:, 0], at, "right") - 1
        inside = left & (i >= 0)
        inside[inside] &= at[inside] < time[i[inside], 1]
        found[phase] = _time(trace, kernels[inside])
        left = left & ~inside
    found["other"] = _time(trace, kernels[left | ~known])
    return found
