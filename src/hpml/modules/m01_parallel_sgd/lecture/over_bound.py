"""All-reduces and the least time they can take: predicted and measured time over that bound."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpml.predict.draw import COLOURS, LINES, MARKERS, Series, size_ticks

LEVELS = (
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1000,
)  # labelled ticks of the time over the bound


def over_bound(
    panels: Mapping[str, Mapping[str, Series]],
    bounds: Mapping[str, Callable[[float], float]],
    *,
    title: str = "",
) -> Figure:
    """Time over its lower bound, against bytes: 1 is the least that the network allows.

    A panel for each of `panels`, with series of seconds by bytes, by name: points measured, a line
    for the model where there is one, and else through the points. `bounds` has for each panel the
    lower bound in seconds by bytes. Both axes are logarithmic.

    Raises ValueError where no series has a measured point.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    sizes = [n for panel in panels.values() for one in panel.values() for n in one.measured]
    if not sizes:
        raise ValueError("over_bound: no series has a measured point")
    figure = Figure(figsize=(max(8.5, 4.6 * len(panels) + 2), 4), layout="constrained")
    places = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    fine = np.geomspace(min(sizes), max(sizes), 80)
    for axes, (panel, series) in zip(places, panels.items(), strict=True):
        for name, one in series.items():
            _draw(axes, names.index(name), name, one, bounds[panel], fine)
        axes.axhline(1, color="black", linewidth=1)
        axes.set_title(panel, fontsize=10)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("bytes that each rank has")
        axes.set_xticks(*size_ticks(min(sizes), max(sizes)))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    bottom, top = places[0].get_ylim()
    shown = [level for level in LEVELS if bottom <= level <= top]
    places[0].set_yticks(shown, [f"{level} ×" for level in shown])
    places[0].set_ylabel("time over the lower bound")
    handles = {
        line.get_label(): line
        for axes in places
        for line in axes.lines
        if line.get_label() in names
    }
    figure.legend(
        [handles[name] for name in names], names, loc="outside right center", frameon=False
    )
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _draw(
    axes: Axes,
    number: int,
    name: str,
    one: Series,
    bound: Callable[[float], float],
    fine: np.ndarray,
) -> None:
    colour, line = COLOURS[number % len(COLOURS)], LINES[number % len(LINES)]
    ratios = [seconds / bound(size) for size, seconds in one.measured.items()]
    look = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "markersize": 6}
    look |= {"markerfacecolor": "white", "markeredgewidth": 1.5, "linestyle": line}
    if one.model is None:
        axes.plot(list(one.measured), ratios, label=name, linewidth=1.4, **look)
        return
    predicted = [one.model(size) / bound(size) for size in fine]
    axes.plot(fine, predicted, color=colour, linestyle=line, linewidth=1.6)
    axes.plot(list(one.measured), ratios, **(look | {"linestyle": ""}))
    axes.plot([], [], label=name, linewidth=1.6, **look)  # both, for the legend
