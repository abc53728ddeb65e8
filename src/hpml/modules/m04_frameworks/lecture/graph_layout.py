"""Where the boxes of a computation graph go: in layers, from the inputs down to the outputs.

The layered drawing of Sugiyama, Tagawa and Toda 1981 (Methods for Visual Understanding of
Hierarchical System Structures), in its simplest form: each node one layer below its lowest input,
each layer ordered by the mean place of its neighbours, as few crossings as a few sweeps find.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 12  # to order the layers
MOVES = 300  # at most, to place the nodes within them
STILL = 1e-4  # of the widths' unit: a sweep that moves no node further is the last


@dataclass(frozen=True)
class Node:
    """One box. `inputs` are the names of the nodes whose values it takes, in order; a name may
    stand there twice. `kind` is a key of `graph_picture.KINDS`. `label` may have several lines."""

    name: str
    label: str
    inputs: tuple[str, ...] = ()
    kind: str = "op"


Edge = tuple[str, str]  # from, to


@dataclass(frozen=True)
class Layout:
    """Centres of the nodes by name, and of each edge the points on its way between two nodes.

    x to the right in the unit of the widths; y is the number of the layer, 0 on top.
    """

    places: dict[str, tuple[float, int]]
    bends: dict[Edge, tuple[tuple[float, int], ...]]

    @property
    def layers(self) -> int:
        return 1 + max(layer for _, layer in self.places.values())


def layout(nodes: Sequence[Node], widths: Mapping[str, float], *, gap: float) -> Layout:
    """A place for each node, with `gap` between neighbours in a layer.

    Raises ValueError where a name stands for two nodes, an input has no node, or the graph has a
    cycle.
    """
    depth = depths(nodes)
    rows: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=0))]
    for node in nodes:
        rows[depth[node.name]].append(node.name)
    above: dict[str, list[str]] = {node.name: [] for node in nodes}
    ways: dict[Edge, list[str]] = {}
    for node in nodes:
        for source in dict.fromkeys(node.inputs):
            way = [f"{source}>{node.name}#{k}" for k in range(depth[source] + 1, depth[node.name])]
            for layer, dummy in enumerate(way, depth[source] + 1):
                rows[layer].append(dummy)
            for upper, lower in zip([source, *way], [*way, node.name], strict=True):
                above.setdefault(lower, []).append(upper)
            ways[source, node.name] = way
    below: dict[str, list[str]] = {name: [] for name in above}
    for lower, uppers in above.items():
        for upper in uppers:
            below[upper].append(lower)
    rows = _ordered(rows, above, below)
    x = _placed(rows, above, below, {name: widths.get(name, 0.0) for name in above}, gap)
    layer_of = {name: layer for layer, row in enumerate(rows) for name in row}
    point = {name: (x[name], layer_of[name]) for name in x}
    return Layout(
        {node.name: point[node.name] for node in nodes},
        {edge: tuple(point[dummy] for dummy in way) for edge, way in ways.items()},
    )


def depths(nodes: Sequence[Node]) -> dict[str, int]:
    """The layer of each node. One without inputs stands just above the first that takes it.

    Raises ValueError as `layout` does.
    """
    named = {node.name: node for node in nodes}
    if len(named) < len(nodes):
        raise ValueError("two nodes have the same name")
    missing = [name for node in nodes for name in node.inputs if name not in named]
    if missing:
        raise ValueError(f"{missing[0]} is an input, but no node")
    depth: dict[str, int] = {}
    waiting = list(nodes)
    while waiting:
        ready = [node for node in waiting if all(name in depth for name in node.inputs)]
        if not ready:
            raise ValueError(f"{waiting[0].name} depends on itself: a graph has no cycle")
        for node in ready:
            depth[node.name] = 1 + max((depth[name] for name in node.inputs), default=-1)
        waiting = [node for node in waiting if node.name not in depth]
    for node in nodes:
        if not node.inputs:
            users = [depth[other.name] for other in nodes if node.name in other.inputs]
            depth[node.name] = min(users, default=1) - 1
    return depth


Neighbours = Mapping[str, Sequence[str]]


def _ordered(rows: list[list[str]], above: Neighbours, below: Neighbours) -> list[list[str]]:
    best, fewest = rows, _crossings(rows, above)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        rows = [list(row) for row in rows]
        order = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
        for layer in order:
            fixed = {name: k for k, name in enumerate(rows[layer - 1 if down else layer + 1])}
            near = above if down else below
            own = {name: k for k, name in enumerate(rows[layer])}
            rows[layer].sort(key=lambda name: _mean([fixed[n] for n in near[name]], own[name]))
        count = _crossings(rows, above)
        if count < fewest:
            best, fewest = rows, count
    return best


def _crossings(rows: Sequence[Sequence[str]], above: Neighbours) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        place = {name: k for k, name in enumerate(upper)}
        ends = [(place[n], k) for k, name in enumerate(lower) for n in above[name]]
        total += sum(a < c and b > d for a, b in ends for c, d in ends)
    return total


def _placed(
    rows: Sequence[Sequence[str]],
    above: Neighbours,
    below: Neighbours,
    widths: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    """The places with short edges: layer by layer the least sum of squares of their widths."""
    near = {name: (*above[name], *below[name]) for name in above}
    x = {name: 0.0 for name in above}
    for row in rows:
        x.update(_apart(row, dict.fromkeys(row, 0.0), dict.fromkeys(row, 1), widths, gap))
    weights = {name: max(1, len(near[name])) for name in near}
    for sweep in range(MOVES):
        before = dict(x)
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = {name: _mean([x[n] for n in near[name]], x[name]) for name in row}
            x.update(_apart(row, wanted, weights, widths, gap))
        if all(abs(x[name] - before[name]) < STILL for name in x):
            break
    return x


def _apart(
    row: Sequence[str],
    wanted: Mapping[str, float],
    weights: Mapping[str, int],
    widths: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    """The centres nearest to `wanted` (weighted least squares) that keep order and distance.

    Centres minus the least distances must not decrease: that is isotonic regression, and pooling
    adjacent violators solves it.
    """
    shift = [0.0]
    for left, right in pairwise(row):
        shift.append(shift[-1] + (widths[left] + widths[right]) / 2 + gap)
    blocks: list[tuple[float, int, int]] = []  # mean, weight, nodes
    for name, offset in zip(row, shift, strict=False):
        mean, weight, size = wanted[name] - offset, weights[name], 1
        while blocks and blocks[-1][0] > mean:
            other, heavy, count = blocks.pop()
            mean = (other * heavy + mean * weight) / (heavy + weight)
            weight, size = heavy + weight, count + size
        blocks.append((mean, weight, size))
    level = [mean for mean, _, size in blocks for _ in range(size)]
    return {name: level[k] + shift[k] for k, name in enumerate(row)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
