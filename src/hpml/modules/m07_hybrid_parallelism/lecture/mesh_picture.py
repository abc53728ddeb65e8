"""Collectives on a mesh of ranks, in their order, coloured by the dimension of the mesh."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from hpml.ranks.evidence import Call, Evidence
from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import drawn_calls, tint

Groups = Sequence[Sequence[int]]


def dimension_of(call: Call, dimensions: Mapping[str, Groups]) -> str | None:
    """The dimension of the mesh that a call's group lies along; None for another group."""
    for name, groups in dimensions.items():
        if call.group in [tuple(sorted(group)) for group in groups]:
            return name
    return None


def groups_of(mesh: Sequence[Sequence[int]], names: Sequence[str]) -> dict[str, Groups]:
    """The groups of ranks along each of the two named dimensions of a mesh, given as its rows."""
    rows, columns = names
    return {rows: [list(column) for column in zip(*mesh, strict=True)], columns: list(mesh)}


def draw(
    panels: Mapping[str, tuple[Evidence, Mapping[str, Groups]]],
    *,
    per_node: int = 0,
    title: str = "",
) -> Figure:
    """A panel for each launch, by name, with the groups of ranks along each dimension of its mesh.

    A row for each rank, in it a box for each call, in the order of the rank's calls (not in time),
    with its MB; lines connect the members of a group. With `per_node` ranks on a node, dashed lines
    part the nodes: what crosses one goes over the uplink. Collectives of other groups are left out.
    """
    names = list(dict.fromkeys(name for _, groups in panels.values() for name in groups))
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    places = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (panel, (evidence, dimensions)) in zip(places, panels.items(), strict=True):
        longest = 0
        for rank in evidence.ranks:
            calls = [one for one in drawn_calls(rank) if dimension_of(one, dimensions)]
            longest = max(longest, len(calls))
            for place, call in enumerate(calls):
                number = names.index(dimension_of(call, dimensions) or "")
                _box(axes, place, rank.rank, number, call)
        size = evidence.world_size
        if per_node:
            for edge in range(per_node, size, per_node):
                axes.axhline(edge - 0.5, color="black", linestyle="--", linewidth=1)
        axes.set(xlim=(-0.6, longest - 0.4), ylim=(size - 0.5, -0.5))
        axes.set_yticks(range(size), [f"rank {rank}" for rank in range(size)])
        axes.set_xticks(range(longest), range(1, longest + 1))
        axes.tick_params(length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel("collective, in order (MB in each)")
        axes.set_title(panel, loc="left", fontsize=9)
    handles = [
        Patch(facecolor=tint(k), hatch=HATCHES[k], edgecolor="black", label=f"over {name}")
        for k, name in enumerate(names)
    ]
    if per_node:
        handles.append(Patch(facecolor="white", edgecolor="black", ls="--", label="between nodes"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _box(axes: Axes, place: int, rank: int, number: int, call: Call) -> None:
    # Groups that interleave have lines beside each other
    across = place + 0.1 * ((min(call.group) % 2) - 0.5) * 2
    axes.plot([across] * 2, [min(call.group), max(call.group)], color="black", lw=1.2, zorder=1)
    look = {"facecolor": tint(number), "hatch": HATCHES[number], "hatch_linewidth": 0.3}
    corner = (place - 0.38, rank - 0.22)
    axes.add_patch(Rectangle(corner, 0.76, 0.44, edgecolor="black", lw=0.6, zorder=2, **look))
    box = {"facecolor": tint(number), "edgecolor": "none", "pad": 0.5}
    at = {"ha": "center", "va": "center", "fontsize": "x-small", "bbox": box, "zorder": 3}
    axes.text(place, rank, f"{call.nbytes / 1e6:.2g}", **at)
