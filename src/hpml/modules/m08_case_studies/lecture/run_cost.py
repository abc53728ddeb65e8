"""What a training run costs on so many nodes: hours, node-hours or money, and the knee.

Nodes are paid for as a whole. The knee is the last number of nodes that pays: going up from the
smallest, each node that a step adds brings at least a given part (`worth`) of what one node brings
at the smallest number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.figure import Figure

from hpml.predict.published_scaling import Row

WORTH = 0.5
LOOKS = (("#D55E00", "s", "--"), ("#0072B2", "o", "-"))


@dataclass(frozen=True)
class Size:
    """The run on so many nodes, with the ranks that are fastest there.

    `cost` is in node-hours times the price of one.
    """

    nodes: int
    ranks: int
    images_per_s: float
    hours: float
    cost: float


def sizes(rows: Sequence[Row], images: int, node_hour: float = 1.0) -> tuple[Size, ...]:
    """One for each number of nodes in this table of images/s, ascending.

    `node_hour` is the price of a node for an hour, in any currency: 1 gives node-hours.
    """
    fastest: dict[int, Row] = {}
    for row in rows:
        now = fastest.get(row.nodes)
        fastest[row.nodes] = row if now is None or row.value > now.value else now
    found = []
    for nodes, row in sorted(fastest.items()):
        hours = images / row.value / 3600
        found.append(Size(nodes, row.ranks, row.value, hours, nodes * hours * node_hour))
    return tuple(found)


def gains(curve: Sequence[Size]) -> tuple[float, ...]:
    """What each node brings that a step adds, over what one brings at the smallest number."""
    one = curve[0].images_per_s / curve[0].nodes
    return tuple(
        (after.images_per_s - now.images_per_s) / (after.nodes - now.nodes) / one
        for now, after in pairwise(curve)
    )


def knee(curve: Sequence[Size], worth: float = WORTH) -> Size:
    """The size before the first step whose nodes bring less than `worth` each."""
    for place, gain in enumerate(gains(curve)):
        if gain < worth:
            return curve[place]
    return curve[-1]


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
