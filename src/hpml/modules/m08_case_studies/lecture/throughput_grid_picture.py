"""The effect of each factor on throughput, over the number of ranks: a panel for each grid."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from hpml.modules.m08_case_studies.lecture.throughput_grid import CHOSEN, FACTORS, Grid
from hpml.predict.draw import COLOURS, LINES, MARKERS

TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
GIVEN = "#999999"  # the model, which one does not choose


def effects_picture(grids: Sequence[Grid]) -> Figure:
    """Lines of effects, best level over worst, with the largest of them named.

    Its title is the message of the first grid, which is that of the fastest ranks.
    """
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    panels = figure.subplots(1, len(grids), sharex=True, sharey=True, squeeze=False)[0]
    for axes, grid in zip(panels, grids, strict=True):
        sizes = sorted(grid.throughput)
        for factor in FACTORS:
            effects = [grid.effect(factor, ranks) for ranks in sizes]
            if factor in CHOSEN:
                which = CHOSEN.index(factor)
                look = {"color": COLOURS[which], "marker": MARKERS[which], "ls": LINES[which]}
            else:
                look = {"color": GIVEN, "marker": "x", "ls": "-", "linewidth": 1}
            label = factor if factor in CHOSEN else f"{factor} (given)"
            axes.plot(range(len(sizes)), effects, label=label, **look)
        axes.set_title(f"a rank is {grid.rank.name}", fontsize=10)
        axes.set_xticks(range(len(sizes)), [str(ranks) for ranks in sizes])
        axes.set(xlabel="ranks", yscale="log")
        axes.grid(alpha=0.3)
    highest = max(g.effect(f, ranks) for g in grids for f in FACTORS for ranks in g.throughput)
    panels[0].set_ylim(0.9, max(2.0, 1.3 * highest))
    panels[0].set_ylabel("effect on images/s (times)\nbest level over worst")
    panels[0].yaxis.set_major_locator(FixedLocator([tick for tick in TICKS if tick < 2 * highest]))
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panels[0].yaxis.set_minor_locator(NullLocator())
    panels[-1].legend(fontsize=9, loc="upper left")
    figure.suptitle(message(grids[0]), fontsize=11)
    return figure


def message(grid: Grid) -> str:
    """Which factor moves throughput most, on a few ranks and on the most."""
    few, many = sorted(grid.throughput)[1], max(grid.throughput)
    (first, least), (second, most) = grid.largest(few), grid.largest(many)
    return (
        f"What moves throughput most: {first} on {few} ranks ({least:.0f} times), {second} on "
        f"{many} ({most:.0f} times)"
    )
