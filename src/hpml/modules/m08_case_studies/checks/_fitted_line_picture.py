"""A line through an all-reduce's times, and how far it misses each size."""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from matplotlib.figure import Figure

from hpml.predict.draw import size_ticks
from hpml.trace.layout import PALETTE

GOOD, BAD = PALETTE[5], PALETTE[6]


def fitted_line(
    sizes: Sequence[float],
    seconds: Sequence[Sequence[float]],
    line: Callable[[float], float],
    *,
    disturbed: Collection[int] = (),
    title: str = "",
) -> Figure:
    """`seconds[k]`, the repetitions of `sizes[k]` bytes, and the seconds that `line` gives.

    On the left the times themselves, on the right each size's quickest repetition over the line: 1
    is on the line. Sizes whose places are in `disturbed` are marked. All axes are logarithmic.
    """
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    times, ratios = figure.subplots(1, 2, sharex=True)
    quickest = [min(one) for one in seconds]
    fine = np.geomspace(min(sizes), max(sizes), 120)
    drawn = np.array([line(size) for size in fine])
    for size, repetitions in zip(sizes, seconds, strict=True):
        times.plot([size] * len(repetitions), repetitions, ".", color="#bbbbbb", markersize=2.5)
    shown = drawn > 0  # a line below 0 has no place on this axis
    times.plot(fine[shown], drawn[shown], color="black", linewidth=1.2)
    for wanted, colour, marker, label in (
        (False, GOOD, "o", "undisturbed"),
        (True, BAD, "X", "disturbed"),
    ):
        places = [k for k in range(len(sizes)) if (k in disturbed) == wanted]
        x = [sizes[k] for k in places]
        look = {"color": colour, "linestyle": "", "markersize": 5, "label": label}
        times.plot(x, [quickest[k] for k in places], marker, **look)
        on_axis = [k for k in places if line(sizes[k]) > 0]
        over = [quickest[k] / line(sizes[k]) for k in on_axis]
        ratios.plot([sizes[k] for k in on_axis], over, marker, **look)
    ratios.axhline(1, color="black", linewidth=1.2)
    ratios.axhspan(0.9, 1.1, color="#eeeeee", zorder=0)
    for axes in (times, ratios):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("bytes that each rank has")
        axes.set_xticks(*size_ticks(min(sizes), max(sizes)))
        axes.tick_params(axis="x", labelsize=7)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    low, high = ratios.get_ylim()
    ratios.set_ylim(min(low, 0.7), max(high, 1.5))
    levels = [level for level in _LEVELS if ratios.get_ylim()[0] <= level <= ratios.get_ylim()[1]]
    ratios.set_yticks(levels, [f"{level:g} ×" for level in levels])
    times.set_ylabel("time (s)")
    times.set_title("small dots: repetitions; line: the fit", fontsize=9)
    ratios.set_ylabel("quickest repetition over the line")
    missing = "" if shown.all() else "; where the line is below 0 there is nothing"
    ratios.set_title(f"grey: within 10 % of the line{missing}", fontsize=9)
    times.legend(fontsize=8, loc="upper left")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


_LEVELS = (1e-4, 1e-3, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1e3, 1e4)
