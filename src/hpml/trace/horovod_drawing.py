"""A Horovod timeline as a picture: what each tensor waited for, and which were fused."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.trace.horovod_timeline import (
    WITHOUT_TENSOR,
    Collective,
    Operation,
    Phase,
    Span,
    Timeline,
    collectives,
    held_up,
)
from hpml.trace.layout import PALETTE
from hpml.trace.space_time import format_bytes

ORANGE, GREEN, PINK, YELLOW, BLUE, GREY = *PALETTE[1:6], PALETTE[7]
# Colour, hatch (for prints without colour) and legend. "turn" is not a phase of the file: the
# tensor is agreed on, and the messages before it are being sent.
LOOKS: dict[Phase | Literal["turn"], tuple[str | tuple[str, float], str, str]] = {
    "negotiate": (GREY, "", "negotiation"),
    "turn": ((GREY, 0.2), "", "waits for its turn"),
    "wait": (YELLOW, "xxx", "wait for data (GPU)"),
    "prepare": (PINK, "...", "make room"),
    "copy": (ORANGE, "///", "copy to or from the fusion buffer"),
    "transfer": (BLUE, "", "transfer"),
    "other": (GREEN, "ooo", "other"),
}
NARROW = 0.1  # of the time drawn: such a negotiation is too short to have its words on it
FEW = 24  # rows that have a label and an outline each
LONG = 0.03  # of the time drawn: a negotiation that takes longer is explained in the picture


def timeline(
    trace: Timeline, *, per: Literal["tensor", "collective"] = "tensor", title: str = ""
) -> Figure:
    """One row per tensor, or one per collective, from the first event that is drawn on.

    A row has its negotiation, with a tick for each rank that asked (where the file has it), then
    the wait for its turn, copies and transfer. Per collective, a row has the tensors that were
    fused into it: negotiation from the first to the last of them. What had begun when the file was
    cut off is drawn to the right edge with a dashed outline. Barriers have no tensor, and no row.
    The longest negotiation has its milliseconds written on it, or beside it if it is short, and for
    how many of them other tensors were being sent, if it takes more than 3 % of the time.

    Raises ValueError when nothing is there to be drawn.
    """
    rows = _tensor_rows(trace) if per == "tensor" else _collective_rows(trace)
    if not rows:
        raise ValueError(f"the timeline has no {per} to draw: {trace.describe()}")
    moments = [at for _, operations in rows for o in operations for s in o.spans for at in _ends(s)]
    start, end = min(moments), max(moments)
    unit, scale = ("ms", 1e3) if end - start < 2 else ("s", 1.0)
    width = max((end - start) * scale, 1e-3)

    height = 1.4 + min(0.3 * len(rows), 4.2)
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(-0.01 * width, 1.02 * width)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    drawn: set[str] = set()
    for place, (_, operations) in enumerate(rows):
        for wait in _waits(operations):
            drawn.add("turn")
            _bar(axes, wait, "turn", place, start, scale, few=len(rows) <= FEW)
        for span in _merged(operations):
            drawn.add(span.phase)
            _bar(axes, span, span.phase, place, start, scale, few=len(rows) <= FEW)
        if len(rows) <= FEW:
            asked = [at for operation in operations for _, at in operation.ready]
            ticks = [(at - start) * scale for at in asked]
            axes.vlines(ticks, place - 0.4, place + 0.4, colors="black", linewidth=0.8)
    _label_rows(axes, [label for label, _ in rows], per)
    if per == "tensor" and len(rows) > FEW:
        _explain_longest(axes, trace, rows, start, scale)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel(f"time ({unit})")
    axes.set_title(title, loc="left")
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="black", label=words)
        for phase, (colour, hatch, words) in LOOKS.items()
        if phase in drawn
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def _tensor_rows(trace: Timeline) -> list[tuple[str, list[Operation]]]:
    rows: dict[str, list[Operation]] = {}
    for operation in trace.operations:
        if operation.spans and operation.kind not in WITHOUT_TENSOR:
            rows.setdefault(operation.tensor, []).append(operation)
    return list(rows.items())


def _collective_rows(trace: Timeline) -> list[tuple[str, list[Operation]]]:
    return [(_label(one), list(one.operations)) for one in collectives(trace)]


def _label(one: Collective) -> str:
    first = one.operations[0].tensor
    name = first if not one.fused else f"{len(one.operations)} tensors"
    return name if one.nbytes is None else f"{name}, {format_bytes(one.nbytes)}"


def _merged(operations: Sequence[Operation]) -> list[Span]:
    """The spans of a row; overlapping ones of one name, as of fused tensors, are merged."""
    merged: list[Span] = []
    for span in sorted((s for o in operations for s in o.spans), key=lambda s: s.begin):
        place = next(
            (
                k
                for k, other in enumerate(merged)
                if other.name == span.name and (other.end is None or span.begin <= other.end)
            ),
            None,
        )
        if place is None:
            merged.append(span)
            continue
        ends = (merged[place].end, span.end)
        last = None if None in ends else max(ends)
        merged[place] = Span(span.name, merged[place].begin, last)
    return merged


def _waits(operations: Sequence[Operation]) -> list[Span]:
    """From the end of a row's negotiation to its first activity."""
    ends = [o.negotiation.end for o in operations if o.negotiation is not None]
    begins = [o.activities[0].begin for o in operations if o.activities]
    if None in ends or not ends or not begins or min(begins) <= max(ends):
        return []
    return [Span("turn", max(ends), min(begins))]


def _explain_longest(
    axes: Axes,
    trace: Timeline,
    rows: Sequence[tuple[str, list[Operation]]],
    start: float,
    scale: float,
) -> None:
    """Write on the longest negotiation how long it took, and what happened meanwhile."""
    spans = [
        (o.negotiation, place)
        for place, (_, operations) in enumerate(rows)
        for o in operations
        if o.negotiation is not None and o.negotiation.end is not None
    ]
    longest = max((span for span, _ in spans), key=lambda span: span.seconds, default=None)
    if longest is None or longest.seconds * scale < LONG * axes.get_xlim()[1]:
        return
    # A neighbour belongs to the same block if it began and ended about then.
    near = 0.1 * longest.seconds
    block = [
        place
        for span, place in spans
        if abs(span.begin - longest.begin) < near and abs(span.end - longest.end) < near
    ]
    unit = "ms" if scale == 1e3 else "s"
    text = (
        f"{len(block)} tensors: {longest.seconds * scale:.1f} {unit} of negotiation;\n"
        f"for {held_up(trace, longest) * scale:.1f} {unit} of it, others are being sent"
    )
    narrow = longest.seconds * scale < NARROW * axes.get_xlim()[1]
    aside = {"xytext": (0.98, 0.95), "textcoords": "axes fraction", "ha": "right", "va": "top"}
    axes.annotate(
        text,
        (((longest.begin + longest.end) / 2 - start) * scale, sum(block) / len(block)),
        **(aside if narrow else {"ha": "center", "va": "center"}),
        arrowprops={"arrowstyle": "-", "linewidth": 0.8} if narrow else None,
        fontsize="small",
        bbox={"facecolor": "white", "edgecolor": "black", "linewidth": 0.6},
    )


def _bar(
    axes: Axes,
    span: Span,
    phase: Phase | Literal["turn"],
    place: int,
    start: float,
    scale: float,
    *,
    few: bool,
) -> None:
    """Draw a span; one too short to be seen gets a minimum width."""
    edge = axes.get_xlim()[1]
    left = (span.begin - start) * scale
    right = edge if span.end is None else max((span.end - start) * scale, left + 0.001 * edge)
    colour, hatch, _ = LOOKS[phase]
    axes.barh(
        place,
        right - left,
        left=left,
        height=0.8 if few else 1.0,
        facecolor=colour,
        hatch=hatch if few else "",
        edgecolor="black" if few else "none",
        linewidth=0.6 if few else 0,
        linestyle="--" if span.end is None else "-",
    )


def _label_rows(axes: Axes, labels: Sequence[str], per: str) -> None:
    axes.tick_params(axis="y", length=0)
    if len(labels) <= FEW:
        axes.set_yticks(range(len(labels)), labels, fontsize="small")
    else:
        axes.set_ylabel(f"{len(labels)} {per}s")
        axes.set_yticks([])


def _ends(span: Span) -> tuple[float, ...]:
    return (span.begin,) if span.end is None else (span.begin, span.end)
