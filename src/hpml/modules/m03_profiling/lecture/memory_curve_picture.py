"""Memory over time as a picture, above a strip with the phases of the steps."""

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.modules.m03_profiling.lecture.memory_curve import MemoryCurve
from hpml.modules.m03_profiling.lecture.shares_picture import LOOKS
from hpml.trace.layout import PALETTE
from hpml.trace.profiler.phases import PHASES, phases
from hpml.trace.profiler.trace import Trace


def memory_curve_picture(trace: Trace, curve: MemoryCurve, *, title: str = "") -> Figure:
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
