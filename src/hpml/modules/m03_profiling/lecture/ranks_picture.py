"""Ranks as rows on one clock: their phases, what they wait for, and the critical path."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hpml.modules.m03_profiling.lecture.critical_path import Segment
from hpml.modules.m03_profiling.lecture.shares_picture import LOOKS as PARTS_LOOKS
from hpml.trace.layout import PALETTE
from hpml.trace.profiler import intervals
from hpml.trace.profiler.collectives import collectives
from hpml.trace.profiler.communication import Communication, communication, steps
from hpml.trace.profiler.phases import PHASES, phases
from hpml.trace.profiler.trace import Trace

TRANSFER, WAITING = "transfer", "waiting for the last rank"
LOOKS = {name: look for name, look in PARTS_LOOKS.items() if name in PHASES} | {
    TRANSFER: {"facecolor": PALETTE[6], "hatch": "..."},
    WAITING: {"facecolor": "white", "hatch": "xxx"},
    "hidden": {"facecolor": PALETTE[3], "hatch": ""},
}
EDGE = {"edgecolor": "black", "linewidth": 0.5}


def side_by_side(
    traces: Sequence[Trace],
    numbers: Sequence[int] | None = None,
    *,
    path: Sequence[Segment] = (),
    title: str = "",
) -> Figure:
    """One row per rank over the profiled steps of these numbers (None: all), on one clock.

    Phases are coloured; over them lies where the rank waits for a collective: hatched while another
    rank has not come yet, dotted while all have and numbers are on their way. `path`, of
    `critical_path`, is drawn as a thick line from rank to rank. Time 0 is the first step's start.

    Raises UserError as `communication` does.
    """
    wanted = [s.number for s in traces[0].steps] if numbers is None else list(numbers)
    window = [(steps(t, wanted[0])[0].start, steps(t, wanted[-1])[0].end) for t in traces]
    origin, until = min(w[0] for w in window), max(w[1] for w in window)
    figure = Figure(figsize=(9, 1.1 + 0.55 * len(traces)), layout="constrained")
    axes = figure.subplots()
    ranks = communication(traces)
    used = set()
    for rank, (trace, one) in enumerate(zip(traces, ranks, strict=True)):
        rows = phases(trace).on_host | {TRANSFER: one.transfer, WAITING: one.waiting}
        for name, found in rows.items():
            here = intervals.clip(found, *window[rank])
            if _bars(axes, rank, (here - origin) * 1e3, name):
                used.add(name)
        for number in wanted:
            at = (steps(trace, number)[0].start - origin) * 1e3
            axes.vlines(at, rank - 0.45, rank + 0.45, colors="black", linewidth=1.2)
            if rank == 0 and len(wanted) > 1:
                axes.text(at, -0.52, f" step {number}", fontsize="small", va="bottom")
    handles: list[Patch | Line2D] = [Patch(**LOOKS[n], **EDGE, label=n) for n in LOOKS if n in used]
    if path:
        _path(axes, path, origin)
        handles.append(Line2D([], [], color="black", linewidth=3, label="critical path"))
    axes.set_yticks(range(len(traces)), [f"rank {rank}" for rank in range(len(traces))])
    axes.set_ylim(len(traces) - 0.45, -0.55)
    axes.set_xlim(0, (until - origin) * 1e3)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("time (ms)")
    axes.set_title(title, loc="left", pad=16 if len(wanted) > 1 else 6)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _bars(axes: Axes, row: float, found: np.ndarray, name: str, height: float = 0.8) -> bool:
    """Draw intervals, in ms, but those too short to be seen. Whether any is left."""
    bars = [(begin, end - begin) for begin, end in found if end - begin > 0.05]
    axes.broken_barh(bars, (row - height / 2, height), **LOOKS[name], **EDGE)
    return bool(bars)


def _path(axes: Axes, path: Sequence[Segment], origin: float) -> None:
    times, rows = [], []
    for piece in path:
        times += [(piece.start - origin) * 1e3, (piece.end - origin) * 1e3]
        rows += [piece.rank, piece.rank]
    axes.plot(times, rows, color="white", linewidth=5, solid_capstyle="butt")
    axes.plot(times, rows, color="black", linewidth=3, solid_capstyle="butt")


def communication_bars(ranks: Sequence[Communication], *, title: str = "") -> Figure:
    """A bar per rank: communication hidden, transferred and waited for, in ms per step."""
    return hidden_bars({f"rank {one.rank}": [one] for one in ranks}, title=title)


def hidden_bars(runs: dict[str, Sequence[Communication]], *, title: str = "") -> Figure:
    """As `communication_bars`, a bar for each of several runs: the mean of its ranks."""
    figure = Figure(figsize=(9, 1.2 + 0.42 * len(runs)), layout="constrained")
    axes = figure.subplots()
    parts = {"hidden": "hidden", TRANSFER: "transferred", WAITING: "waited"}
    longest, used = 0.0, set()
    for place, ranks in enumerate(runs.values()):
        left = 0.0
        for name, attribute in parts.items():
            width = 1e3 * float(np.mean([getattr(one, attribute) / one.steps for one in ranks]))
            axes.barh(place, width, 0.6, left=left, **LOOKS[name], **EDGE)
            if width > 0.05:
                used.add(name)
            left += width
        axes.text(left, place, f" {left:.0f} ms", va="center")
        longest = max(longest, left)
    axes.set_yticks(range(len(runs)), list(runs))
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(0, 1.1 * longest)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("communication in flight (ms per step)")
    axes.set_title(title, loc="left")
    handles = [Patch(**LOOKS[n], **EDGE, label=_LABELS[n]) for n in parts if n in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


_LABELS = {
    "hidden": "hidden behind computing",
    TRANSFER: "exposed: transfer",
    WAITING: "exposed: waiting for the last rank",
}


def buckets(
    runs: dict[str, Sequence[Trace]], rank: int = 0, *, itemsize: int = 4, title: str = ""
) -> Figure:
    """What one rank computes in a step, and below it each collective from its call to its end.

    A panel for each of `runs`; the step is the last one profiled. A bar has its size and its rate:
    bytes of its tensors (elements of `itemsize` bytes) per second from the moment when the last
    rank had called it.
    """
    figure = Figure(figsize=(9, 0.8 + 1.75 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, traces) in zip(panels, runs.items(), strict=True):
        step = traces[rank].steps[-1]
        on_host = phases(traces[rank]).on_host
        for phase in PHASES:
            here = intervals.clip(on_host[phase], step.start, step.end)
            _bars(axes, 0, (here - step.start) * 1e3, phase)
        exposed = communication(traces, step.number)[rank]
        for part in (TRANSFER, WAITING):
            found = exposed.transfer if part == TRANSFER else exposed.waiting
            _bars(axes, 0, (found - step.start) * 1e3, part)
        found = [c for c in collectives(traces) if c.step == step.number]
        for row, one in enumerate(found, 1):
            times = (one.issued[rank], max(one.arrived, one.issued[rank]), one.end[rank])
            begin, all_there, end = ((float(t) - step.start) * 1e3 for t in times)
            _bars(axes, row, np.array([[begin, min(all_there, end)]]), WAITING, 0.9)
            _bars(axes, row, np.array([[all_there, end]]), "hidden", 0.9)
            if one.elements is not None:
                size = one.elements * itemsize / 1e6
                rate = size / max(float(one.end[rank]) - one.arrived, 1e-9)
                text = f" {size:.1f} MB, {rate:.0f} MB/s"
                axes.text(end, row, text, va="center", fontsize="x-small")
        axes.set_yticks([0, (1 + len(found)) / 2], ["program", "in flight"])
        axes.set_ylim(len(found) + 0.6, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.set_title(
            f"{name}: {len(found)} all-reduce{'s' * (len(found) != 1)}", loc="left", fontsize=10
        )
    panels[-1].set_xlabel("time in the step (ms)")
    panels[-1].set_xlim(0, 1.12 * max(t[rank].steps[-1].seconds for t in runs.values()) * 1e3)
    figure.suptitle(title, x=0.01, ha="left")
    shown = ("loading", "forward", "backward", TRANSFER, WAITING, "hidden")
    words = {TRANSFER: "exposed: transfer", "hidden": "a bucket in flight"}
    handles = [Patch(**LOOKS[n], **EDGE, label=words.get(n, n)) for n in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure
