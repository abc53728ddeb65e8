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
)
from hpml.trace.layout import IN_FLIGHT, PALETTE
from hpml.trace.space_time import format_bytes

SKY, ORANGE, GREEN, PINK, YELLOW, GREY = *PALETTE[:5], PALETTE[7]
# Colour, hatch (for prints without colour) and legend.
LOOKS: dict[Phase, tuple[str | tuple[str, float], str, str]] = {
    "negotiate": ((GREY, IN_FLIGHT), "", "negotiation: ranks ask for it"),
    "wait": (YELLOW, "xxx", "wait for data (GPU)"),
    "prepare": (PINK, "...", "make room"),
    "copy": (ORANGE, "///", "copy to or from the fusion buffer"),
    "transfer": (SKY, "", "transfer"),
    "other": (GREEN, "ooo", "other"),
}
FEW = 24  # rows that have a label and an outline each


def timeline(
    trace: Timeline, *, per: Literal["tensor", "collective"] = "tensor", title: str = ""
) -> Figure:
    """One row per tensor, or one per collective, from the first event that is drawn on.

    A row has its negotiation, pale, with a tick for each rank that asked (where the file has it),
    then copies and transfer. Between them a tensor waits for its turn. Per collective, a row has
    the tensors that were fused into it: negotiation from the first to the last of them. What had
    begun when the file was cut off is drawn to the right edge with a dashed outline. Barriers have
    no tensor, and no row.

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
    drawn: set[Phase] = set()
    for place, (_, operations) in enumerate(rows):
        for span in _merged(operations):
            drawn.add(span.phase)
            _bar(axes, span, place, start, scale, outlined=len(rows) <= FEW)
        if len(rows) <= FEW:
            asked = [at for operation in operations for _, at in operation.ready]
            ticks = [(at - start) * scale for at in asked]
            axes.vlines(ticks, place - 0.4, place + 0.4, colors="black", linewidth=0.8)
    _label_rows(axes, [label for label, _ in rows], per)
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


def _bar(axes: Axes, span: Span, place: int, start: float, scale: float, *, outlined: bool) -> None:
    """Draw a span; one too short to be seen gets a minimum width."""
    edge = axes.get_xlim()[1]
    left = (span.begin - start) * scale
    right = edge if span.end is None else max((span.end - start) * scale, left + 0.001 * edge)
    colour, hatch, _ = LOOKS[span.phase]
    axes.barh(
        place,
        right - left,
        left=left,
        height=0.8 if outlined else 1.0,
        facecolor=colour,
        hatch=hatch if outlined else "",
        edgecolor="black" if outlined else "none",
        linewidth=0.6 if outlined else 0,
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
