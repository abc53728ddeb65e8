"""The bubble of a pipeline against its micro-batches: measured points, and the formula as lines."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from hpml.predict.draw import COLOURS, HOLLOW, LINES, MARKERS
from hpml.predict.pipeline import bubble


def bubble_picture(
    measured: Mapping[str, tuple[int, Mapping[int, float]]], *, title: str = ""
) -> Figure:
    """Idle shares against micro-batches, on a logarithmic axis of micro-batches.

    `measured` has by name the number of ranks, and idle shares (0 to 1) by number of micro-batches.
    Lines are (p-1)/(m+p-1), as `hpml.predict.pipeline.bubble` has it.
    """
    most = max(m for _, shares in measured.values() for m in shares)
    fine = np.geomspace(1, most, 60)
    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    axes = figure.subplots()
    for number, (name, (ranks, shares)) in enumerate(measured.items()):
        colour, line = COLOURS[number], LINES[number]
        formula = [100 * bubble(ranks, m) for m in fine]
        axes.plot(fine, formula, color=colour, linestyle=line, label=f"formula, p = {ranks}")
        points = [100 * share for share in shares.values()]
        axes.plot(list(shares), points, MARKERS[number], color=colour, label=name, **HOLLOW)
    ticks = sorted({m for _, shares in measured.values() for m in shares})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 100)
    axes.grid(alpha=0.3)
    axes.set(xlabel="micro-batches m in a batch", ylabel="idle (% of the ranks' time)")
    axes.set_title(title, fontsize=10, loc="left")
    axes.legend(fontsize=8)
    return figure
