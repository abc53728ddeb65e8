"""Cost against time: a training run on one node, two, four; the knee marked."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from hpml.modules.m08_case_studies.lecture.run_cost import WORTH, Size, knee

LOOKS = (("#D55E00", "s", "--"), ("#0072B2", "o", "-"))


def cost_picture(
    curves: Mapping[str, Sequence[Size]], title: str, unit: str, worth: float = WORTH
) -> Figure:
    """A curve for each of up to two networks, a point for each number of nodes.

    `unit` is that of `Size.cost`: "node-hours" for a price of 1, else that of the price, "EUR".
    """
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, curve), (colour, marker, line) in zip(curves.items(), LOOKS, strict=False):
        hours, cost = [one.hours for one in curve], [one.cost for one in curve]
        axes.plot(hours, cost, marker=marker, linestyle=line, color=colour, label=name)
        for one in curve:
            axes.annotate(
                str(one.nodes), (one.hours, one.cost), xytext=(7, 6), textcoords="offset points"
            )
        stop = knee(curve, worth)
        look = {"markersize": 17, "markerfacecolor": "none", "markeredgecolor": colour}
        axes.plot(stop.hours, stop.cost, "o", **look, label=f"its knee: {stop.nodes} × a node")
    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(-2, 8)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    every = [one for curve in curves.values() for one in curve]
    axes.set_xlim(0.8 * min(one.hours for one in every), 1.3 * max(one.hours for one in every))
    axes.set_ylim(0, 1.2 * max(one.cost for one in every))
    axes.set(xlabel="hours of the run (numbers at the points: nodes)", ylabel=f"cost ({unit})")
    axes.set_title(title, loc="left")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left", fontsize=9)
    return figure
