"""A computation graph as a picture: values flow from the top to the bottom."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle
from matplotlib.path import Path

from hpml.modules.m04_frameworks.lecture.graph_layout import Edge, Layout, Node, layout
from hpml.trace.layout import PALETTE, tint

__all__ = ["KINDS", "Node", "graph_picture", "graphs_picture"]

# what a kind of node is called in the legend, and how its box looks
KINDS = {
    "input": ("input", {"facecolor": tint(0)}),
    "parameter": ("parameter", {"facecolor": tint(4), "hatch": "...."}),
    "constant": ("constant", {"facecolor": "white", "linestyle": ":"}),
    "op": ("operation", {"facecolor": "white"}),
    "backward": ("operation of backward", {"facecolor": tint(1), "hatch": "////"}),
    "control": ("control flow", {"facecolor": tint(3)}),
    "output": ("output", {"facecolor": "#cccccc"}),
}
MARKS = (PALETTE[6], PALETTE[5], PALETTE[2], "black")  # edges of marked boxes
WIDTH = 9.0  # inches, of each picture
FONT = 8.5  # points; less where the graph is too wide
SMALLEST_FONT = 5.0
CHARACTER, LINE = 0.602 / 72, 1.25 / 72  # inches for each point: DejaVu Sans Mono
PAD, GAP, RISE = 0.09, 0.16, 0.3  # inches: in a box, between boxes, between layers


def graph_picture(
    nodes: Sequence[Node],
    *,
    title: str,
    marks: Mapping[str, str] | None = None,
    edges: Mapping[Edge, str] | None = None,
) -> Figure:
    """The graph of `nodes`, layer below layer.

    `marks` puts a thick coloured edge round a node, by its name; the legend has the mark's text,
    one colour for each text (at most four). `edges` writes a text beside the edge (from, to).

    Raises ValueError for a graph with a cycle, an input that is not a node, no node at all, or a
    fifth mark; KeyError for a kind that is not in KINDS.
    """
    return graphs_picture({"": nodes}, title=title, marks=marks, edges=edges)


def graphs_picture(
    panels: Mapping[str, Sequence[Node]],
    *,
    title: str,
    marks: Mapping[str, str] | None = None,
    edges: Mapping[Edge, str] | None = None,
) -> Figure:
    """Several graphs side by side, each below its name; see `graph_picture`."""
    marks, edges = marks or {}, edges or {}
    if not panels or not all(panels.values()):
        raise ValueError("a graph has no nodes, so there is nothing to draw")
    if len(set(marks.values())) > len(MARKS):
        raise ValueError(f"at most {len(MARKS)} different marks have a colour of their own")
    found = {
        name: layout(nodes, {n.name: _size(n.label)[0] for n in nodes}, gap=GAP)
        for name, nodes in panels.items()
    }
    extents = [_extent(found[name], nodes) for name, nodes in panels.items()]
    scale = min(1.0, (WIDTH - 0.1) / sum(right - left for left, right in extents))
    scale = max(scale, SMALLEST_FONT / FONT)
    rows = {name: _rows(found[name], nodes) for name, nodes in panels.items()}
    height = (max(one[-1][1] for one in rows.values()) + 0.05) * scale
    texts = list(dict.fromkeys(marks.values()))
    colours = dict(zip(texts, MARKS, strict=False))
    named = any(panels)
    figure = Figure(figsize=(WIDTH, height + 0.75 + 0.25 * named), layout="constrained")
    ratios = [right - left for left, right in extents]
    places = figure.subplots(1, len(panels), squeeze=False, width_ratios=ratios)[0]
    spare = max(0.0, WIDTH - 0.1 - scale * sum(ratios)) / sum(ratios) / scale
    for axes, (name, nodes), (left, right) in zip(places, panels.items(), extents, strict=True):
        margin = spare * (right - left) / 2
        axes.set(xlim=(left - margin, right + margin), ylim=(height / scale, 0))
        axes.set_axis_off()
        whole = (left - margin, 0), right - left + 2 * margin, height / scale
        axes.add_patch(Rectangle(*whole, facecolor="none", edgecolor="none"))  # keeps the width
        axes.set_title(name, loc="center", fontsize=9)
        _edges(axes, nodes, found[name], rows[name], edges, FONT * scale)
        for node in nodes:
            centre = found[name].places[node.name]
            mark = colours.get(marks.get(node.name, ""))
            _box(axes, node, (centre[0], _middle(rows[name], centre[1])), mark, FONT * scale)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    present = {node.kind for nodes in panels.values() for node in nodes}
    handles = [
        Patch(edgecolor="black", linewidth=0.8, label=label, **look)
        for kind, (label, look) in KINDS.items()
        if kind in present
    ]
    handles += [
        Patch(facecolor="none", edgecolor=colour, linewidth=2.2, label=text)
        for text, colour in colours.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _size(label: str) -> tuple[float, float]:
    lines = label.split("\n")
    wide = max(max(map(len, lines)), 2) * FONT * CHARACTER
    return wide + 2 * PAD, len(lines) * FONT * LINE + 2 * PAD


def _extent(found: Layout, nodes: Sequence[Node]) -> tuple[float, float]:
    half = {node.name: _size(node.label)[0] / 2 for node in nodes}
    lefts = [x - half[name] for name, (x, _) in found.places.items()]
    rights = [x + half[name] for name, (x, _) in found.places.items()]
    bends = [x for way in found.bends.values() for x, _ in way]
    return min(lefts + bends) - GAP, max(rights + bends) + GAP


Row = tuple[float, float]  # upper and lower edge of a layer, inches from the top


def _rows(found: Layout, nodes: Sequence[Node]) -> list[Row]:
    tallest = [0.0] * found.layers
    for node in nodes:
        layer = found.places[node.name][1]
        tallest[layer] = max(tallest[layer], _size(node.label)[1])
    rows = []
    top = 0.05
    for height in tallest:
        rows.append((top, top + height))
        top += height + RISE
    return rows


def _middle(rows: Sequence[Row], layer: int) -> float:
    return sum(rows[layer]) / 2


def _edges(
    axes: Axes,
    nodes: Sequence[Node],
    found: Layout,
    rows: Sequence[Row],
    texts: Mapping[Edge, str],
    font: float,
) -> None:
    sizes = {node.name: _size(node.label) for node in nodes}
    for node in nodes:
        sources = list(dict.fromkeys(node.inputs))
        # arrows come in side by side, in the order in which they come from the layer above
        sources.sort(key=lambda name: (found.bends[name, node.name] or [found.places[name]])[-1][0])
        for number, source in enumerate(sources, 1):
            x, layer = found.places[node.name]
            x += (number / (len(sources) + 1) - 0.5) * min(sizes[node.name][0], 1.2)
            begin_x, begin_layer = found.places[source]
            begin = (begin_x, _middle(rows, begin_layer) + sizes[source][1] / 2)
            end = (x, _middle(rows, layer) - sizes[node.name][1] / 2)
            # straight down past the boxes of a layer, and curved between two layers
            stops = [(begin_x, begin_layer), *found.bends[source, node.name], (x, layer)]
            gaps = [
                ((ax, rows[above][1]), (bx, rows[below][0]))
                for (ax, above), (bx, below) in pairwise(stops)
            ]
            axes.add_patch(_arrow(begin, gaps, end))
            if text := texts.get((source, node.name)):
                (ax, ay), (bx, by) = gaps[-1]
                label = axes.text((ax + bx) / 2, (ay + by) / 2, text, ha="center", va="center")
                label.set(fontsize=font * 0.95, color=PALETTE[5], zorder=4)
                label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.8})


Point = tuple[float, float]


def _arrow(begin: Point, gaps: Sequence[tuple[Point, Point]], end: Point) -> FancyArrowPatch:
    vertices, codes = [begin], [Path.MOVETO]
    for upper, lower in gaps:
        if upper != vertices[-1]:
            vertices.append(upper)
            codes.append(Path.LINETO)
        half = (upper[1] + lower[1]) / 2
        vertices += [(upper[0], half), (lower[0], half), lower]
        codes += [Path.CURVE4] * 3
    if abs(end[1] - vertices[-1][1]) > 1e-6:
        vertices.append(end)
        codes.append(Path.LINETO)
    look = {"arrowstyle": "-|>", "mutation_scale": 7, "color": "#555555", "linewidth": 0.9}
    return FancyArrowPatch(path=Path(vertices, codes), shrinkA=0, shrinkB=0, zorder=1, **look)


def _box(
    axes: Axes, node: Node, centre: tuple[float, float], mark: str | None, font: float
) -> None:
    wide, high = _size(node.label)
    look = KINDS[node.kind][1]
    shape = "round,pad=0,rounding_size=0.09" if node.kind in ("input", "output") else "square,pad=0"
    corner = centre[0] - wide / 2, centre[1] - high / 2
    axes.add_patch(
        FancyBboxPatch(
            corner,
            wide,
            high,
            boxstyle=shape,
            zorder=2,
            edgecolor=mark or "black",
            linewidth=2.4 if mark else 0.8,
            hatch_linewidth=0.3,
            **look,
        )
    )
    text = axes.text(
        *centre, node.label, ha="center", va="center", fontsize=font, family="monospace", zorder=3
    )
    if "hatch" in look:
        text.set_bbox({"facecolor": look["facecolor"], "edgecolor": "none", "pad": 0.6})
