"""Space-time diagrams: an arrow for every message, from its sender's row to its receiver's."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hpml.ranks.evidence import Evidence
from hpml.trace.layout import PALETTE
from hpml.trace.messages import Message, messages

# Senders differ by these in a print without colour, and by the row where an arrow begins.
DASHES = ("-", "--", "-.", ":")
THIN, THICK = 0.8, 3.6  # line widths, in points, of the smallest and the largest message


def space_time(
    launches: Mapping[str, Evidence], *, title: str = "", until: float | None = None
) -> Figure:
    """Who sends what to whom and when: a panel per launch, by its name, all on one time axis.

    In a panel each rank has a row, and each message is an arrow from the moment when its sender
    issued it to the moment when its receiver had it; the more bytes, the thicker. (Lamport 1978,
    Time, clocks, and the ordering of events in a distributed system, draws time upwards.) Time 0 of
    a panel is its first message. A message that nobody received is a cross on its sender's row.
    With `until`, in seconds, only messages sent up to then are drawn and counted; one that was
    received later has no head.
    `hpml.trace.repetition.quickest` cuts one repetition out of a longer launch.

    Raises ValueError where a launch sent no message from rank to rank, or as `messages` does.
    """
    found = {name: messages(evidence) for name, evidence in launches.items()}
    if silent := [name for name, sent in found.items() if not sent]:
        raise ValueError(f"{silent[0]}: no rank sent a message, so there is nothing to draw")
    if until is not None:
        found = {name: _first(sent, until) for name, sent in found.items()}
    longest = until or max(1e-6, *(_end(sent) - sent[0].sent for sent in found.values()))
    unit, scale = ("ms", 1e3) if longest < 2 else ("s", 1.0)
    sizes = sorted({message.nbytes for sent in found.values() for message in sent})
    rows = [evidence.world_size for evidence in launches.values()]
    figure = Figure(figsize=(9, 0.9 + sum(0.55 + 0.3 * row for row in rows)), layout="constrained")
    panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
    for axes, (name, sent), row in zip(panels, found.items(), rows, strict=True):
        axes.set_xlim(-0.02 * longest * scale, 1.02 * longest * scale)
        axes.set_ylim(row - 0.7, -0.3)
        axes.hlines(range(row), 0, longest * scale, colors="#bbbbbb", linewidth=0.8, zorder=0)
        for message in sent:
            _arrow(axes, message, sent[0].sent, longest, scale, _width(message.nbytes, sizes))
        axes.set_yticks(range(row), [f"rank {rank}" for rank in range(row)], fontsize="small")
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "left", "right"]].set_visible(False)
        words = f"{name}: {len(sent)} message{'s' if len(sent) > 1 else ''}"
        axes.set_title(
            f"{words}, {format_bytes(sum(m.nbytes for m in sent))}", loc="left", fontsize=9
        )
    panels[-1].set_xlabel(f"time since the first message ({unit})")
    figure.suptitle(title, x=0.01, ha="left")
    shown = [sizes[0], sizes[-1]] if len(sizes) > 1 else sizes
    lines = [
        Line2D([], [], color="black", linewidth=_width(size, sizes), label=format_bytes(size))
        for size in shown
    ]
    lines += [
        Line2D([], [], color=_colour(rank), linestyle=_dash(rank), label=f"from rank {rank}")
        for rank in range(max(rows))
    ]
    figure.legend(handles=lines, loc="outside right upper", frameon=False, fontsize="small")
    return figure


def format_bytes(count: float) -> str:
    """`count` bytes as people write them: "1.5 MB"."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.3g} B"


def _first(sent: list[Message], until: float) -> list[Message]:
    return [message for message in sent if message.sent - sent[0].sent <= until]


def _end(sent: list[Message]) -> float:
    return max(m.sent if m.received is None else m.received for m in sent)


def _width(nbytes: int, sizes: list[int]) -> float:
    if sizes[0] == sizes[-1]:
        return 1.4
    return THIN + (THICK - THIN) * (nbytes - sizes[0]) / (sizes[-1] - sizes[0])


def _arrow(
    axes: Axes, message: Message, start: float, longest: float, scale: float, width: float
) -> None:
    begin = (message.sent - start) * scale
    if message.received is None:
        axes.plot(begin, message.sender, "x", color="black")
        return
    whole = message.received - message.sent
    left = start + longest - message.sent  # seconds up to the right edge
    part = 1.0 if whole <= left else left / whole
    end = begin + part * whole * scale
    axes.annotate(
        "",
        xy=(end, message.sender + part * (message.receiver - message.sender)),
        xytext=(begin, message.sender),
        arrowprops={
            "arrowstyle": "-|>" if part == 1 else "-",
            "color": _colour(message.sender),
            "linewidth": width,
            "linestyle": _dash(message.sender),
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 9,
        },
    )
    axes.plot(begin, message.sender, "o", color=_colour(message.sender), markersize=3)


def _colour(rank: int) -> str:
    # The palette's darker ones first: a thin line of a pale colour is hard to see.
    return (PALETTE[5], PALETTE[6], PALETTE[2], PALETTE[3], PALETTE[1], PALETTE[7])[rank % 6]


def _dash(rank: int) -> str:
    return DASHES[rank % len(DASHES)]
