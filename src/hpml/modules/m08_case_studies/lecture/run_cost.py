"""What a training run costs on so many nodes: hours, node-hours or money, and the knee.

Nodes are paid for as a whole. The knee is the last number of nodes that pays: going up from the
smallest, each node that a step adds brings at least a given part (`worth`) of what one node brings
at the smallest number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hpml.predict.published_scaling import Row

WORTH = 0.5


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


def node_boundary_finding(slow: Sequence[Size], fast: Sequence[Size]) -> tuple[bool, str, str]:
    """For `conclude`: what the second node brings, on a slow network and on a fast one."""
    over_slow, over_fast = gains(slow)[0], gains(fast)[0]
    figures = (
        f"Over the slow network the second node brings {100 * over_slow:.1f} % of what the first "
        f"one does, and the run costs {slow[1].cost / slow[0].cost:.2f} times as much on two nodes "
        f"as on one. Over the fast one it brings {100 * over_fast:.0f} %, and the run costs "
        f"{fast[1].cost / fast[0].cost:.2f} times as much"
    )
    ends = f"The knee is at {_nodes(knee(slow))} and at {_nodes(knee(fast))}"
    return (
        over_slow < WORTH <= over_fast,
        f"{figures}. {ends}.",
        f"{figures}: in these tables crossing a node boundary is not what decides.",
    )


def _nodes(size: Size) -> str:
    return f"{size.nodes} node" + "s" * (size.nodes > 1)
