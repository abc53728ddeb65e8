"""One step as a picture: threads below each other, and in a thread what calls below what is called.

It is the view that TensorBoard's trace page, Perfetto and chrome://tracing give.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.modules.m03_profiling.lecture.nesting import nesting
from hpml.modules.m03_profiling.lecture.shares_picture import LOOKS
from hpml.trace.layout import tint
from hpml.trace.profiler.phases import AUTOGRAD, COLLECTIVES, DEVICE, OWN_NAMES, PHASES
from hpml.trace.profiler.trace import Step, Trace

NARROWEST = 5e-4  # of the step; what is narrower cannot be seen
CHARACTER = 0.0085  # of the picture's width
NOWHERE: Mapping[str, tuple[int, float, float]] = MappingProxyType({})
OPERATOR, KERNEL = "operator", "kernel"
COLOURS = {OPERATOR: "#E6E6E6", KERNEL: tint(3)}


def picture(
    trace: Trace,
    step: int | None = None,
    *,
    title: str = "",
    levels: int = 5,
    places: Mapping[str, tuple[int, float, float]] = NOWHERE,
) -> Figure:
    """The events of one step (the last where `step` is None), `levels` deep.

    An event's colour is its phase's, where its name says one. Time 0 is the step's start.
    `places` are marked by their names: a thread, seconds on the trace's clock, and a level.
    Raises ValueError where that step was not profiled.
    """
    chosen = _step(trace, step)
    depth = nesting(trace).depth
    inside = (trace.start < chosen.end) & (trace.end > chosen.start) & (depth < levels)
    inside &= trace.of("cpu_op", "user_annotation", *DEVICE)
    inside &= trace.duration > NARROWEST * chosen.seconds
    threads = _threads(trace, inside)
    figure = Figure(figsize=(9, 1.3), layout="constrained")
    axes = figure.subplots()
    row: float = 0
    ticks: dict[float, str] = {}
    seen = set()
    tops = {}
    for thread in threads:
        tops[thread] = row
        here = np.flatnonzero(inside & (trace.thread == thread))
        ticks[row] = _thread_name(trace, thread)
        for i in here[np.argsort(depth[here], kind="stable")]:
            left = max(trace.start[i], chosen.start)
            width = min(trace.end[i], chosen.end) - left
            kind = _kind(trace, i)
            seen.add(kind)
            place = (1e3 * (left - chosen.start), 1e3 * width)
            look = LOOKS.get(kind) or {"facecolor": COLOURS[kind]}
            # A narrow box is all outline, and many of them are a black block.
            line = 0.4 if width > 0.005 * chosen.seconds else 0.1
            look = look | {"edgecolor": "black", "linewidth": line}
            axes.broken_barh([place], (row + depth[i], 0.92), **look)
            name = _short(trace.names[trace.name[i]])
            if (len(name) + 1) * CHARACTER < width / chosen.seconds:
                middle = place[0] + place[1] / 2, row + depth[i] + 0.46
                box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
                axes.text(*middle, name, ha="center", va="center", fontsize=7, bbox=box)
        row += int(depth[here].max()) + 1
        axes.axhline(row + 0.2, color="black", linewidth=0.5)
        row += 0.4
    for label, (thread, at, level) in places.items():
        spot = 1e3 * (at - chosen.start), tops[thread] + level + 0.46
        disc = {"boxstyle": "circle", "facecolor": "black", "edgecolor": "white"}
        axes.text(*spot, label, color="white", ha="center", va="center", fontsize=8, bbox=disc)
    figure.set_figheight(1.5 + 0.26 * row)
    axes.set_yticks([place + 0.46 for place in ticks], ticks.values(), fontsize="small")
    axes.set_ylim(row, -0.1)
    axes.set_xlim(0, 1e3 * chosen.seconds)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel(f"time in step {chosen.number} (ms)")
    axes.set_title(title, loc="left", fontsize=11)
    order = [kind for kind in (*LOOKS, *COLOURS) if kind in seen and kind != "other"]
    looks = LOOKS | {kind: {"facecolor": colour} for kind, colour in COLOURS.items()}
    handles = [Patch(label=kind, edgecolor="black", **looks[kind]) for kind in order]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
    return figure


def _step(trace: Trace, number: int | None) -> Step:
    for step in reversed(trace.steps):
        if number is None or step.number == number:
            return step
    raise ValueError(f"step {number} was not profiled, so there is nothing to draw")


def _threads(trace: Trace, inside: np.ndarray) -> list[int]:
    """The main thread first, then the others by name."""
    main = trace.main_thread
    found = np.unique(trace.thread[inside]).tolist()
    return sorted(found, key=lambda thread: (thread != main, _thread_name(trace, thread)))


def _thread_name(trace: Trace, thread: int) -> str:
    if thread == trace.main_thread:
        return "main thread"
    name = trace.thread_names[thread] if trace.thread_names else ""
    name = name or f"thread {trace.threads[thread][1]}"
    kind = name.partition("(")[2].rstrip(")")  # "thread 7479 (pt_gloo_runloop)"
    return kind.removeprefix("pt_") if kind and kind != "python" else name.strip()


def _kind(trace: Trace, i: int) -> str:
    name = trace.names[trace.name[i]]
    if name.startswith((*COLLECTIVES, "nccl")):
        return "communication"
    if trace.categories[trace.category[i]] in DEVICE:
        return KERNEL
    found = next((phase for start, phase in OWN_NAMES if name.startswith(start)), name)
    if found in PHASES:
        return found
    return OPERATOR if trace.categories[trace.category[i]] == "cpu_op" else "other"


def _short(name: str) -> str:
    name = name.removeprefix(AUTOGRAD + ": ").removeprefix("torch::autograd::")
    return name.removeprefix("aten::").removeprefix("enumerate(DataLoader)#")
