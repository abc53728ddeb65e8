"""What a model predicts and what was measured, in one picture."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from hpml.predict.amdahl import Amdahl
from hpml.predict.parallelism import Exchange, Plan, exchanges
from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import PALETTE

# Marker and line differ as well, for prints without colour.
COLOURS = (*PALETTE[5:7], *PALETTE[2:4], PALETTE[1], PALETTE[0], PALETTE[7])
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HOLLOW = {"markerfacecolor": "none", "markeredgewidth": 1.6, "markersize": 7}  # some coincide
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


@dataclass(frozen=True)
class Series:
    """Measured points of one curve, and its model.

    `measured` is y by x; `model` predicts y for any x, None where there is no model.
    """

    measured: Mapping[float, float] = field(default_factory=dict)
    model: Callable[[float], float] | None = None


def message_curves(
    panels: Mapping[str, Mapping[str, Series]],
    *,
    title: str = "",
    bounds: Mapping[str, Callable[[float], float]] | None = None,
) -> Figure:
    """Seconds against bytes, on logarithmic axes: points measured, lines predicted.

    A panel for each of `panels`, in it a colour, a marker and a line for each series, by name.
    `bounds` has for some panels the lower bound in seconds by bytes: below it the panel is grey.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    sizes = [n for panel in panels.values() for one in panel.values() for n in one.measured]
    fine = np.geomspace(min(sizes), max(sizes), 80)
    figure = Figure(figsize=(max(9, 3.6 * len(panels) + 0.6), 4.4), layout="constrained")
    places = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (panel, series) in zip(places, panels.items(), strict=True):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for name, one in series.items():
            colour, marker, line = _style(names.index(name))
            if one.model is not None:
                predicted = [one.model(size) for size in fine]
                axes.plot(fine, predicted, color=colour, linestyle=line, linewidth=1.4)
            axes.plot(*_points(one.measured), marker, color=colour, **HOLLOW)
        axes.set_title(panel, fontsize=9)
        axes.set_xlabel("message (bytes)")
        axes.set_xticks(
            *size_ticks(min(sizes), max(sizes)),
        )
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    bottom = places[0].get_ylim()[0]
    for axes, panel in zip(places, panels, strict=True):
        if bounds and panel in bounds:
            least = [bounds[panel](size) for size in fine]
            axes.fill_between(fine, bottom, least, color="#dddddd", zorder=0)
    places[0].set_ylim(bottom=bottom)
    places[0].set_ylabel("time (s)")
    for number, name in enumerate(names):
        colour, marker, line = _style(number)
        modelled = any(panel[name].model for panel in panels.values() if name in panel)
        places[0].plot(
            [],
            [],
            marker=marker,
            color=colour,
            linestyle=line if modelled else "",
            label=name,
            **HOLLOW,
        )
    if bounds:
        places[0].fill_between([], [], color="#dddddd", label="less than the link allows")
    figure.legend(loc="outside lower center", ncols=min(len(names) + 1, 5), frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def speed_ups(
    series: Mapping[str, Series],
    *,
    title: str = "",
    simulated: Sequence[int] = (),
    hollow_are: str = "simulated",
) -> Figure:
    """Speed-up against ranks, on logarithmic axes, beside the ideal.

    `series` has speed-ups by number of ranks. Those of `simulated` are drawn hollow, and named
    `hollow_are` in the legend.
    """
    most = max(ranks for one in series.values() for ranks in one.measured)
    fine = np.geomspace(1, most, 60)
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(fine, fine, color="black", linewidth=0.8, label="ideal")
    for number, (name, one) in enumerate(series.items()):
        colour, marker, line = _style(number)
        for hollow in (False, True):
            points = {p: s for p, s in one.measured.items() if (p in simulated) == hollow}
            fill = {"markerfacecolor": "white" if hollow else colour, "markeredgecolor": colour}
            label = f"{name}{f', {hollow_are}' if hollow else ''}" if points else None
            axes.plot(*_points(points), marker, linestyle="", markersize=7, label=label, **fill)
        if one.model is not None:
            predicted = [one.model(ranks) for ranks in fine]
            axes.plot(fine, predicted, color=colour, linestyle=line, label=f"{name}, model")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ticks = sorted({ranks for one in series.values() for ranks in one.measured})
    axes.set_xticks(ticks, [str(int(tick)) for tick in ticks])
    least = min(speed for one in series.values() for speed in one.measured.values())
    slower = [2.0**k for k in range(math.ceil(math.log2(least)), 0)]
    axes.set_yticks([*slower, *ticks], [f"{tick:g}" for tick in (*slower, *ticks)])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.set(xlabel="ranks", ylabel="speed-up")
    axes.set_title(title, fontsize=10, loc="left")
    axes.legend(fontsize=8)
    return figure


def strong_and_weak(
    strong: Mapping[int, float], weak: Mapping[int, float], model: Amdahl, measured: int = 2
) -> Figure:
    """Speed-ups of strong and weak scaling, from seconds of a step by ranks, beside the ideal.

    `model` is Amdahl's of what a step computes; its weak scaling is Gustafson's (1988), with the
    same serial part. More than `measured` ranks are drawn as simulated.
    """
    share, most = model.serial_fraction, max(strong)
    limit = model.seconds(1) / model.seconds(most)
    series = {
        "strong scaling": Series(
            {ranks: strong[1] / seconds for ranks, seconds in strong.items()},
            lambda ranks: model.seconds(1) / model.seconds(ranks),
        ),
        "weak scaling": Series(
            {ranks: ranks * weak[1] / seconds for ranks, seconds in weak.items()},
            lambda ranks: share + (1 - share) * ranks,
        ),
    }
    title = f"{share:.0%} is not shared out: {most} ranks are at most {limit:.1f} times as fast"
    return speed_ups(series, title=title, simulated=[p for p in strong if p > measured])


def _style(number: int) -> tuple:
    return tuple(kind[number % len(kind)] for kind in (COLOURS, MARKERS, LINES))


def _points(values: Mapping[float, float]) -> tuple[list[float], list[float]]:
    return list(values), list(values.values())


def size_ticks(least: float, most: float) -> tuple[list[float], list[str]]:
    every = [(10.0**k, label) for k, label in enumerate(_POWERS)]
    inside = [(size, label) for size, label in every if 0.5 * least <= size <= 2 * most]
    return [size for size, _ in inside], [label for _, label in inside]


_POWERS = ("1 B", "10 B", "100 B", "1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB", "1 GB")


def cuts(plans: Sequence[Plan], *, title: str = "") -> Figure:
    """Which rank computes what: a panel per plan, the batch downwards, the layers to the right.

    Each cell has the colour, the hatch and the number of the rank that computes it. Lines separate
    the layers. Arrows are what ranks send each other (`hpml.predict.parallelism.exchanges`).
    """
    figure = Figure(figsize=(2.5 * len(plans), 3.6), layout="constrained")
    panels = figure.subplots(1, len(plans), squeeze=False)[0]
    for axes, plan in zip(panels, plans, strict=True):
        rows, columns = len(plan.owner), len(plan.owner[0])
        layers = columns // rows
        for i, row in enumerate(plan.owner):
            for j, rank in enumerate(row):
                look = {"facecolor": PALETTE[rank], "hatch": HATCHES[rank % len(HATCHES)]}
                axes.add_patch(Rectangle((j, i), 1, 1, edgecolor="#00000044", linewidth=0, **look))
        for rank in sorted({rank for row in plan.owner for rank in row}):
            cells = [
                (i, j) for i in range(rows) for j in range(columns) if plan.owner[i][j] == rank
            ]
            i, j = (sorted(line)[len(line) // 2] for line in zip(*cells, strict=True))
            if (i, j) not in cells:
                i, j = cells[len(cells) // 2]
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            axes.text(j + 0.5, i + 0.5, str(rank), ha="center", va="center", bbox=box)
        for layer in range(layers + 1):
            axes.axvline(layer * rows, color="black", linewidth=1.5)
        axes.set(xlim=(0, columns), ylim=(rows, 0), xlabel="layers", yticks=[])
        axes.set_xticks([rows * (k + 0.5) for k in range(layers)], range(1, layers + 1))
        axes.tick_params(length=0)
        axes.set_title(plan.name, fontsize=9)
        for one in exchanges(plan):
            _exchange(axes, one)
    panels[0].set_ylabel("batch")
    handles = [
        Line2D([], [], color=EXCHANGED[what], linestyle=line, linewidth=2, label=label)
        for what, line, label in (
            ("activations", "-", "activations forward, their gradients back"),
            ("gradients", "--", "gradients of the weights, added up"),
        )
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


EXCHANGED = {"activations": "black", "gradients": "#B2182B"}


def _exchange(axes: Axes, one: Exchange) -> None:
    """An arrow with two heads, on a white one, which sets it off from the hatches."""
    line = "--" if one.what == "gradients" else "-"
    for colour, width in (("white", 5), (EXCHANGED[one.what], 2)):
        look = {"arrowstyle": "<|-|>", "color": colour, "linewidth": width, "mutation_scale": 11}
        look |= {"shrinkA": 0, "shrinkB": 0, "linestyle": line if width == 2 else "-"}
        axes.annotate("", xy=one.end, xytext=one.begin, arrowprops=look, zorder=5)
