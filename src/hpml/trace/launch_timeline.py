"""A launch as a picture: calls by rank over time, seconds of phases, bytes sent."""

from collections.abc import Mapping

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hpml.publish import rounded
from hpml.ranks.evidence import Call, Evidence, RankEvidence
from hpml.trace.layout import IN_FLIGHT, PALETTE, drawn_calls, lanes

# One for each colour of the palette, for prints without colour.
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "---")


def timeline(evidence: Evidence, *, title: str = "") -> Figure:
    """One row per rank, one bar per call from its issue to its completion, on one clock.

    The pale part of a bar is a call in flight while its rank did other work, the full part is the
    rank waiting for it; the legend has both for each operation. Calls in flight at one time lie in
    lanes below each other. A call that never completed is drawn to the right edge with a dashed
    outline. Marks are dotted lines, named on the first row. Time 0 is the earliest moment drawn;
    the call that makes the process group is left out. `hpml.trace.repetition.quickest` cuts one
    repetition out of a longer launch.

    Raises ValueError when no rank made a call.
    """
    rows = [drawn_calls(rank) for rank in evidence.ranks]
    if not any(rows):
        raise ValueError("no rank made a call here, so there is nothing to draw")
    moments = [call.issued for row in rows for call in row]
    moments += [call.finished for row in rows for call in row if call.finished is not None]
    moments += [mark.at for rank in evidence.ranks for mark in rank.marks]
    start, end = min(moments), max(moments)
    unit, scale = ("ms", 1e3) if end - start < 2 else ("s", 1.0)
    width = max((end - start) * scale, 1e-3)

    operations = list(dict.fromkeys(call.operation for row in rows for call in row))
    figure = Figure(figsize=(9, 1.2 + 0.75 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(-0.01 * width, 1.02 * width)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for rank, row in zip(evidence.ranks, rows, strict=True):
        numbers = lanes(row)
        height = 0.8 / (max(numbers, default=0) + 1)
        for call, number in zip(row, numbers, strict=True):
            lane = (rank.rank - 0.4 + number * height, height)
            _bar(axes, call, operations.index(call.operation), lane, start, scale)
        _marks(axes, rank, start, scale)
    axes.set_yticks(range(len(rows)), [f"rank {rank.rank}" for rank in evidence.ranks])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel(f"time ({unit})")
    axes.set_title(title, loc="left", pad=30 if any(rank.marks for rank in evidence.ranks) else 6)
    figure.legend(
        _legend(operations),
        operations,
        title="pale: call in flight\nfull: its rank waits",
        alignment="left",
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        handlelength=3,
        loc="outside right upper",
        frameon=False,
    )
    return figure


def phase_bars(
    seconds: Mapping[str, Mapping[str, float]], bounds: Mapping[str, float], *, title: str = ""
) -> Figure:
    """A bar per row, cut into its phases, and a lower bound on the last phase.

    `seconds` are by row and by phase (the same phases in each row); `bounds` are the least seconds
    of the last phase, by row: a thick line that begins where that phase does.
    """
    names = list(next(iter(seconds.values())))
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
        begin = (left - parts[names[-1]]) * scale
        end = begin + bounds[row] * scale
        label = f"lower bound of “{names[-1]}”" if place == 0 else None
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


def _legend(operations: list[str]) -> list[tuple[Patch, ...]]:
    """For each operation a pale box and a full one, side by side."""
    return [
        tuple(
            Patch(facecolor=(_colour(k), alpha), hatch=_hatch(k), edgecolor="black")
            for alpha in (IN_FLIGHT, 1.0)
        )
        for k in range(len(operations))
    ]


def _bar(
    axes: Axes, call: Call, kind: int, lane: tuple[float, float], start: float, scale: float
) -> None:
    """Draw a call in the lane (top, height); one too short to be seen gets a minimum width."""
    top, height = lane
    edge = axes.get_xlim()[1]
    lost = call.finished is None
    left = (call.issued - start) * scale
    right = edge if lost else max((call.finished - start) * scale, left + 0.002 * edge)
    waits = right if call.waited is None else min((call.waited - start) * scale, right)
    for begin, end, alpha in ((left, waits, IN_FLIGHT), (waits, right, 1.0)):
        if end > begin:
            axes.barh(
                top,
                end - begin,
                left=begin,
                height=height * 0.9,
                align="edge",
                facecolor=(_colour(kind), alpha),
                hatch=_hatch(kind),
                edgecolor="black",
                linewidth=0.6,
                linestyle="--" if lost else "-",
            )
    if lost:
        axes.text(
            right,
            top + height * 0.45,
            f"{call.operation}: never came back",
            ha="right",
            va="center",
            fontsize="small",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )


def _marks(axes: Axes, rank: RankEvidence, start: float, scale: float) -> None:
    for number, mark in enumerate(rank.marks):
        at = (mark.at - start) * scale
        axes.vlines(at, rank.rank - 0.46, rank.rank + 0.46, colors="black", linestyles=":")
        if rank.rank == 0:
            axes.annotate(
                mark.name,
                (at, -0.5),
                xytext=(0, 2 + 11 * (number % 2)),  # so that neighbours do not overlap
                textcoords="offset points",
                fontsize="small",
                ha="center",
                va="bottom",
                annotation_clip=False,
            )


def _colour(kind: int) -> str:
    return PALETTE[kind % len(PALETTE)]


def _hatch(kind: int) -> str:
    return HATCHES[kind % len(HATCHES)]
