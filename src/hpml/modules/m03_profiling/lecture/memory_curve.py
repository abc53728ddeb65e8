"""Memory of tensors over time, from the allocations that a profiler recorded."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture.shares_picture import LOOKS
from hpml.trace.layout import PALETTE
from hpml.trace.profiler.phases import PHASES, phases
from hpml.trace.profiler.trace import Trace


@dataclass(frozen=True)
class MemoryCurve:
    """What one device's allocator holds for tensors after each of m records."""

    device: str
    at: np.ndarray  # float64 [m], seconds on the trace's clock
    allocated: np.ndarray  # int64 [m], bytes

    @property
    def peak(self) -> int:
        """The most bytes that were held."""
        return int(self.allocated.max())

    @property
    def peak_at(self) -> float:
        """When that was first so, in seconds."""
        return float(self.at[self.allocated.argmax()])


def memory_curve(trace: Trace, device: str | None = None) -> MemoryCurve:
    """The curve of a device ("cpu", "cuda:0"), or of the one with most records where it is None.

    torch.profiler counts from its own start: what was there before is in it only for a GPU. Where
    a trace has no totals, they are the sums of what was allocated and freed, from 0 on.

    Raises UserError where no memory was recorded, or none on that device.
    """
    found = trace.allocations
    if not len(found.at):
        raise UserError("trace: it has no memory in it: record it with profile_memory=True")
    if device is None:
        device = found.devices[int(np.bincount(found.device).argmax())]
    if device not in found.devices:
        raise UserError(
            f"trace: no memory of {device} is in it: name one of {', '.join(found.devices)}"
        )
    here = found.device == found.devices.index(device)
    allocated = found.allocated[here]
    if not allocated.any():
        allocated = np.cumsum(found.change[here])
    return MemoryCurve(device, found.at[here], allocated)


def phase_at_peak(trace: Trace, curve: MemoryCurve) -> str | None:
    """The phase that the main thread was in when `curve` had its peak; None: in none."""
    for phase, time in phases(trace).on_host.items():
        if ((time[:, 0] <= curve.peak_at) & (curve.peak_at < time[:, 1])).any():
            return phase
    return None


def picture(trace: Trace, curve: MemoryCurve, *, title: str = "") -> Figure:
    """`curve` in MiB, its peak marked; below, which phase the main thread was in."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes, strip = figure.subplots(2, sharex=True, height_ratios=[6, 1])
    start = trace.steps[0].start if trace.steps else float(curve.at[0])
    at, held = 1e3 * (curve.at - start), curve.allocated / 2**20
    axes.fill_between(at, held, step="post", color=PALETTE[0], alpha=0.5, linewidth=0)
    axes.step(at, held, where="post", color=PALETTE[5], linewidth=1.2)
    peak = 1e3 * (curve.peak_at - start), curve.peak / 2**20
    axes.plot(*peak, "v", color=PALETTE[6], markersize=8, clip_on=False)
    axes.annotate(f"peak {peak[1]:.1f} MiB", peak, (0, 7), textcoords="offset points", ha="center")
    axes.set_ylim(0, 1.25 * max(peak[1], 1e-9))
    axes.set_ylabel(f"tensors on {curve.device}\n(MiB)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    there = []
    if trace.steps:
        for phase, time in phases(trace).on_host.items():
            spans = [(1e3 * (a - start), 1e3 * (b - a)) for a, b in time]
            look = LOOKS[phase] | {"edgecolor": "black", "linewidth": 0.4}
            strip.broken_barh(spans, (0, 1), **look)
            there += [phase] if spans else []
    strip.set_yticks([])
    strip.set_ylim(0, 1)
    strip.spines[["top", "left", "right"]].set_visible(False)
    strip.set_xlabel("time (ms)")
    order = [phase for phase in PHASES if phase in there]
    handles = [Patch(label=phase, edgecolor="black", **LOOKS[phase]) for phase in order]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
    return figure
