"""One step of a GPU's trace, read in five places, as one reads it in Perfetto.

The step's mark, the widest gap on the device, the first copy to it, its longest kernel and the
launch of that, and where the host waits for the device.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import timeline_picture
from hpml.modules.m03_profiling.lecture.nesting import nesting
from hpml.trace.profiler import intervals
from hpml.trace.profiler.phases import DEVICE, WAITS, phases
from hpml.trace.profiler.trace import Step, Trace


@dataclass(frozen=True)
class Reading:
    """What there is to be seen in a step; times in seconds, events as indices into the trace."""

    step: Step
    gap: tuple[float, float]  # the longest time in which the device does nothing: begin, end
    meanwhile: str  # the phase that the main thread is in for most of the gap
    copy: int  # the first copy from the host to the device
    kernel: int  # the longest
    launch: int  # of that kernel, by the host
    waits: np.ndarray  # int [n], the host's waits for the device
    held: float  # of the host, by the call that asked for the copy
    queued: float  # the longest from the end of a kernel's launch to its begin
    idle: float  # how much of the step the device does nothing, from 0 to 1


def reading(trace: Trace) -> Reading:
    """The last step of `trace`. Raises UserError where it has no kernel, no copy or no wait."""
    step = trace.steps[-1]
    inside = (trace.start >= step.start) & (trace.start < step.end)
    kernels = np.flatnonzero(inside & trace.of("kernel"))
    copies = np.flatnonzero(inside & trace.named("Memcpy HtoD") & trace.of(*DEVICE))
    waits = np.flatnonzero(inside & trace.named(*WAITS))
    if not (len(kernels) and len(copies) and len(waits)):
        raise UserError("trace: no kernel, no copy or no wait is in its last step: record a GPU")
    kernel = int(kernels[trace.duration[kernels].argmax()])
    calls = np.flatnonzero(trace.of("cuda_runtime", "cuda_driver"))
    call_of = {int(trace.correlation[call]): int(call) for call in calls}
    launched = [(one, call_of.get(int(trace.correlation[one]))) for one in kernels]
    launch = call_of.get(int(trace.correlation[kernel]))
    asked = call_of.get(int(trace.correlation[copies[0]]))
    if launch is None or asked is None:
        raise UserError("trace: it has kernels and no launches: record the host's activities too")
    work = trace.of(*DEVICE)
    busy = intervals.union(trace.start[work], trace.end[work])
    idle = intervals.subtract(np.array([[step.start, step.end]]), busy)
    gap = idle[np.diff(idle).ravel().argmax()]
    shares = {
        phase: intervals.length(intervals.clip(time, *gap))
        for phase, time in phases(trace).on_host.items()
    }
    return Reading(
        step=step,
        gap=(float(gap[0]), float(gap[1])),
        meanwhile=max(shares, key=shares.__getitem__),
        copy=int(copies[0]),
        kernel=kernel,
        launch=launch,
        waits=waits,
        held=float(trace.duration[asked]),
        queued=max(float(trace.start[k] - trace.end[c]) for k, c in launched if c is not None),
        idle=intervals.length(idle) / step.seconds,
    )


def picture(trace: Trace, seen: Reading, *, title: str = "") -> Figure:
    """The step with the five places numbered, in the order in which to look."""
    depth = nesting(trace).depth
    main, device = trace.main_thread, int(trace.thread[seen.kernel])

    def at(event: int) -> tuple[int, float, float]:
        middle = float(trace.start[event] + trace.duration[event] / 2)
        return int(trace.thread[event]), middle, float(depth[event])

    places = {
        "1": (main, seen.step.start + 0.25 * seen.step.seconds, 0.0),
        "2": (device, sum(seen.gap) / 2, 0.5),
        "3": at(seen.copy),
        "4": at(seen.kernel),
        "5": (main, float(trace.start[seen.waits[-len(seen.waits) // 4]]), 2.0),
    }
    return timeline_picture.picture(trace, seen.step.number, title=title, levels=3, places=places)
