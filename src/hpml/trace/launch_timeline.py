"""A launch as a picture: calls by rank over time, seconds of phases, bytes sent."""

from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from hpml.publish import rounded
from hpml.ranks.evidence import Evidence
from hpml.trace.launch_svg import LEFT, WIDTH, launch_svg
from hpml.trace.layout import PALETTE, drawn_calls

# One for each colour of the palette, for prints without colour.
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "---")
TITLE = 28  # px, above the drawing
RED = "#c2371f"


def timeline(evidence: Evidence, *, title: str = "") -> Figure:
    """The drawing of `hpml.trace.launch_svg`, as a figure below a title, for a lecture.

    Rows are higher, bars have a hatch by operation too, a row's ground is white.
    `hpml.trace.repetition.quickest` cuts one repetition out of a longer launch.

    Raises ValueError when no rank made a call.
    """
    if not any(drawn_calls(rank) for rank in evidence.ranks):
        raise ValueError("no rank made a call here, so there is nothing to draw")
    drawing = ElementTree.fromstring(launch_svg(evidence, title))
    height = float(drawing.attrib["height"])
    figure = Figure(figsize=(9, 14 * (height + TITLE) / WIDTH))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, -TITLE))
    axes.set_axis_off()
    axes.text(LEFT, -10, title, fontsize=12, parse_math=False)
    for shape in drawing:
        _DRAWN_AS.get(shape.tag.rpartition("}")[2], _nothing)(axes, shape)
    return figure


def phase_bars(
    seconds: Mapping[str, Mapping[str, float]],
    bounds: Mapping[str, float],
    *,
    title: str = "",
    bounded: str = "",
) -> Figure:
    """A bar per row, cut into its phases, and a lower bound on one of them.

    `seconds` are by row and by phase (the same phases in each row); `bounds` are the least seconds
    of the phase `bounded` (default: the last), by row: a thick line that begins where it does.
    """
    names = list(next(iter(seconds.values())))
    bounded = bounded or names[-1]
    before = names[: names.index(bounded)]
    longest = max(sum(row.values()) for row in seconds.values())
    unit, scale = ("ms", 1e3) if longest < 2 else ("s", 1.0)
    figure = Figure(figsize=(9, 1.1 + 0.55 * len(seconds)), layout="constrained")
    axes = figure.subplots()
    for place, (row, parts) in enumerate(seconds.items()):
        left = 0.0
        for number, name in enumerate(names):
            look = {"color": PALETTE[number], "hatch": HATCHES[number], "edgecolor": "black"}
            look["label"] = name if place == 0 else None
            axes.barh(place, parts[name] * scale, left=left * scale, height=0.6, **look)
            left += parts[name]
        begin = sum(parts[name] for name in before) * scale
        end = begin + bounds[row] * scale
        label = f"lower bound of “{bounded}”" if place == 0 else None
        # A cap would add to the line's length, which is read as time.
        look = {"color": "black", "linewidth": 4, "solid_capstyle": "butt", "label": label}
        axes.plot([begin, end], [place - 0.4] * 2, **look)
        axes.text(left * scale, place, f" {rounded(left * scale)} {unit}", va="center")
    axes.set_yticks(range(len(seconds)), list(seconds))
    axes.set_ylim(len(seconds) - 0.5, -0.6)
    axes.set_xlim(0, 1.12 * longest * scale)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel(f"time ({unit})")
    axes.set_title(title, loc="left")
    figure.legend(loc="outside lower center", ncols=len(names) + 1, frameon=False)
    return figure


def traffic_bars(
    launches: Mapping[str, Mapping[str, Evidence]], *, title: str = "", own: float = 0.0
) -> Figure:
    """What each rank sent and received over its own link: a panel per row of `launches`.

    A panel has a group of bars for each of its launches, by name, and in it two bars for each rank,
    from rank 0 on: bytes sent and bytes received, as the kernel counted them at the rank's
    interface. `own` is the bytes of each rank's own tensor, a dashed line.

    Raises ValueError where a launch had no network of its own.
    """
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, len(launches), sharey=True, squeeze=False)[0]
    for axes, (panel, groups) in zip(panels, launches.items(), strict=True):
        left, centres = 0.0, []
        for name, evidence in groups.items():
            for rank in evidence.ranks:
                if rank.traffic is None:
                    raise ValueError(f"{panel}, {name}: there was no link, so nothing was counted")
                counts = (rank.traffic.sent_bytes, rank.traffic.received_bytes)
                for number, count in enumerate(counts):
                    look = {"color": PALETTE[number], "hatch": HATCHES[number]}
                    at = left + rank.rank + 0.4 * number - 0.2
                    axes.bar(at, count / 1e6, 0.4, edgecolor="black", linewidth=0.6, **look)
                below = {"ha": "center", "va": "top", "fontsize": "x-small"}
                place = axes.get_xaxis_transform()
                axes.text(left + rank.rank, -0.015, str(rank.rank), transform=place, **below)
            centres.append(left + (evidence.world_size - 1) / 2)
            left += evidence.world_size + 0.8
        axes.axhline(own / 1e6, color="black", linestyle="--", linewidth=1)
        axes.set_xticks(centres, list(groups))
        axes.tick_params(axis="x", length=0, pad=13)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(panel, fontsize=10)
    panels[0].set_ylabel("MB over the rank's link")
    figure.suptitle(title, x=0.01, ha="left")
    names = ("sent", "received")
    handles: list[Artist] = [
        Patch(facecolor=_colour(k), hatch=_hatch(k), edgecolor="black", label=name)
        for k, name in enumerate(names)
    ]
    if own:
        handles.append(Line2D([], [], color="black", linestyle="--", label="what each rank has"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _rect(axes: Axes, shape: Element) -> None:
    x, y, width, height = (float(shape.attrib[name]) for name in ("x", "y", "width", "height"))
    kind, fill = shape.get("class"), shape.get("fill", "none")
    dashes = "--" if shape.get("stroke-dasharray") else "-"
    if kind == "lane":
        return
    if kind == "cause":
        look = {"facecolor": (RED, 0.16)}
    elif kind == "failed" or fill == "none":
        edge = RED if kind == "failed" else shape.attrib["stroke"]
        look = {"fill": False, "edgecolor": edge, "linewidth": 1.5, "linestyle": dashes}
    else:
        look = {"facecolor": (fill, float(shape.get("fill-opacity", 1)))}
        look |= {"hatch": _hatch(PALETTE.index(fill)), "edgecolor": "black", "linewidth": 0.5}
    axes.add_patch(Rectangle((x, y), width, height, **look))


def _line(axes: Axes, shape: Element) -> None:
    x, y1, y2 = (float(shape.attrib[name]) for name in ("x1", "y1", "y2"))
    mark = shape.get("class") == "mark"
    look = {"color": "black", "linestyle": ":"} if mark else {"color": "#8a8f96", "alpha": 0.35}
    axes.plot([x, x], [y1, y2], linewidth=1.2 if mark else 0.8, zorder=3 if mark else 0, **look)


def _words(axes: Axes, shape: Element) -> None:
    kinds = shape.attrib["class"].split()
    axes.text(
        float(shape.attrib["x"]),
        float(shape.attrib["y"]),
        shape.text or "",
        ha="right" if "e" in kinds else "center" if "m" in kinds else "left",
        fontsize=9 if "s" in kinds else 10,
        fontweight="bold" if "bad" in kinds else "normal",
        parse_math=False,
    )


def _nothing(axes: Axes, shape: Element) -> None:
    """The drawing's title and style say nothing in a figure."""


_DRAWN_AS = {"rect": _rect, "line": _line, "text": _words}


def _colour(kind: int) -> str:
    return PALETTE[kind % len(PALETTE)]


def _hatch(kind: int) -> str:
    return HATCHES[kind % len(HATCHES)]
