"""The parts of training steps over time, by row: what a profiler's records say was at work when."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.modules.m03_profiling.lecture.shares_picture import LOOKS as PART_LOOKS
from hpml.trace.layout import PALETTE

Span = tuple[str, float, float]  # part, begin and end in seconds
OPERATOR = "operator"  # a box that is of no part
LOOKS = {**PART_LOOKS, OPERATOR: {"facecolor": PALETTE[7], "hatch": ""}}
EDGE = {"edgecolor": "black", "linewidth": 0.5}


def parts_picture(
    rows: Mapping[str, Sequence[Span]],
    steps: Mapping[int, tuple[float, float]],
    *,
    title: str,
    answer: Mapping[str, float] | None = None,
) -> Figure:
    """A row for each of `rows`, with its parts as boxes; dashed lines are the borders of `steps`.

    Times are seconds; a part is one of `hpml.trace.profiler.shares.PARTS`, or OPERATOR. `answer`:
    beside it a bar of these seconds by part. Raises ValueError without a step.
    """
    if not steps:
        raise ValueError("there is no step, so there is nothing to draw")
    start = min(begin for begin, _ in steps.values())
    figure = Figure(figsize=(9.0, 1.5 + 0.35 * len(rows)), layout="constrained")
    widths = [1.0] if answer is None else [1.0, 0.16]
    axes = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    _draw_rows(axes[0], rows, steps, start)
    if answer is not None:
        _draw_bar(axes[1], answer)
    there = {name for spans in rows.values() for name, _, _ in spans} | set(answer or ())
    named = [Patch(label=name, **EDGE, **LOOKS[name]) for name in LOOKS if name in there]
    figure.legend(
        handles=named, ncols=len(named), loc="outside lower center", fontsize=8, frameon=False
    )
    axes[0].set_title(title, loc="left", fontsize=11)
    return figure


def _draw_rows(
    axes: Axes,
    rows: Mapping[str, Sequence[Span]],
    steps: Mapping[int, tuple[float, float]],
    start: float,
) -> None:
    for row, spans in enumerate(rows.values()):
        for name, begin, end in spans:
            box = (1e3 * (begin - start), 1e3 * (end - begin))
            axes.broken_barh([box], (row - 0.4, 0.8), **EDGE, **LOOKS[name])
    for border in {border for step in steps.values() for border in step}:
        axes.axvline(1e3 * (border - start), color="black", linestyle="--", linewidth=0.8)
    for number, (begin, end) in steps.items():
        middle = 1e3 * ((begin + end) / 2 - start)
        axes.text(middle, -0.55, f"step {number}", ha="center", va="bottom", fontsize=8)
    axes.set_yticks(range(len(rows)), list(rows), fontsize="small")
    axes.set_ylim(len(rows) - 0.5, -1.0)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("time (ms)")


def _draw_bar(axes: Axes, answer: Mapping[str, float]) -> None:
    bottom = 0.0
    for name in LOOKS:
        height = 1e3 * max(0.0, answer.get(name, 0.0))
        if height:
            axes.bar([0], [height], bottom=bottom, **EDGE, **LOOKS[name])
        bottom += height
    axes.set_xticks([0], ["your answer"], fontsize="small")
    axes.set_ylabel("ms in a step", fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
