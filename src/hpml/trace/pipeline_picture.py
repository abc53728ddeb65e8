"""Pipelines as pictures: a row per rank, a box per pass of a micro-batch, grey where it idles."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from hpml.trace.computations import Computation, idle_share, idle_shares
from hpml.trace.layout import PALETTE, tint

IDLE = "#e4e4e4"
NUMBER = {"forward": 0, "backward": 1}  # in the palette
HATCH = {"forward": "", "backward": "////"}  # for prints without colour
LETTER = 0.075  # inches, of a number in a box
WIDTH, LEFT, RIGHT = 9.0, 0.7, 0.9  # inches, of the figure and beside the rows


def pipeline_picture(
    panels: Mapping[str, Sequence[Computation]], *, title: str = "", unit: str = ""
) -> Figure:
    """Who computes what and when: a panel for each pipeline, by name, all on one time axis.

    A row for each rank, in it a box for each computation, with its micro-batch's number where there
    is room; the darker, the later the chunk. Grey is idle; beside each row is its share of the
    time, and above the panel that of all ranks. Time 0 of a panel is its first computation.
    Times are seconds, or what `unit` says ("forward passes of one stage").

    Computations are those of `hpml.predict.pipeline.played` (worked out) or of
    `hpml.trace.computations.computations` (of a launch), or anything in their form.
    Raises ValueError where a panel has none.
    """
    spans = {}
    for name, done in panels.items():
        if not done:
            raise ValueError(f"{name}: no rank computed anything, so there is nothing to draw")
        spans[name] = (min(one.start for one in done), max(one.end for one in done))
    longest = max(end - begin for begin, end in spans.values())
    scale = 1.0
    if not unit:
        unit, scale = ("ms", 1e3) if longest < 2 else ("s", 1.0)
    rows = [1 + max(one.rank for one in done) for done in panels.values()]
    height = 0.75 + sum(0.42 + 0.27 * row for row in rows) + 0.3 * bool(title)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    places = figure.subplots(len(rows), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
    for axes, (name, done), row in zip(places, panels.items(), rows, strict=True):
        begin, end = spans[name]
        axes.set_xlim(0, longest * scale)
        axes.set_ylim(row - 0.5, -0.5)
        _idle(axes, idle_shares(done), row, (end - begin) * scale, longest * scale)
        room = (WIDTH - LEFT - RIGHT) / longest  # inches for a unit of time
        for one in done:
            _box(axes, one, begin, scale, room)
        axes.set_yticks(range(row), [f"rank {rank}" for rank in range(row)], fontsize="small")
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.set_title(f"{name}: {idle_share(done):.0%} idle", loc="left", fontsize=9)
    places[-1].set_xlabel(f"time ({unit})")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.legend(handles=_legend(panels), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _idle(axes: Axes, shares: Mapping[int, float], rows: int, end: float, edge: float) -> None:
    for rank in range(rows):
        axes.add_patch(Rectangle((0, rank - 0.4), end, 0.8, facecolor=IDLE, linewidth=0))
        words = f" {shares.get(rank, 1.0):.0%} idle"
        axes.text(edge, rank, words, ha="left", va="center", fontsize="x-small")


def _box(axes: Axes, one: Computation, begin: float, scale: float, room: float) -> None:
    left, wide = (one.start - begin) * scale, (one.end - one.start) * scale
    look = {"facecolor": _colour(one.kind, one.chunk), "hatch": HATCH[one.kind]}
    look |= {"edgecolor": "black", "linewidth": 0.5, "hatch_linewidth": 0.3}
    axes.add_patch(Rectangle((left, one.rank - 0.4), wide, 0.8, **look))
    number = str(one.micro_batch)
    if (one.end - one.start) * room > LETTER * (len(number) + 0.3):
        back = {"facecolor": _colour(one.kind, one.chunk), "edgecolor": "none", "pad": 0.6}
        at = {"ha": "center", "va": "center", "fontsize": "x-small", "bbox": back}
        axes.text(left + wide / 2, one.rank, number, **at)


def _colour(kind: str, chunk: int) -> str:
    return PALETTE[NUMBER[kind]] if chunk % 2 else tint(NUMBER[kind])


def _legend(panels: Mapping[str, Sequence[Computation]]) -> list[Patch]:
    chunks = sorted({one.chunk for done in panels.values() for one in done})
    kinds = {one.kind for done in panels.values() for one in done}
    parts = [
        Patch(
            facecolor=_colour(kind, chunk),
            hatch=HATCH[kind],
            edgecolor="black",
            linewidth=0.5,
            label=kind if len(chunks) == 1 else f"{kind}, chunk {chunk}",
        )
        for chunk in chunks
        for kind in NUMBER
        if kind in kinds
    ]
    return [*parts, Patch(facecolor=IDLE, label="idle")]
