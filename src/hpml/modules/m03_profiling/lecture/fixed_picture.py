"""A program fixed step by step: where its step went before and after, and what was gained."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.modules.m03_profiling.lecture.shares_picture import LOOKS
from hpml.trace.layout import PALETTE
from hpml.trace.profiler.shares import PARTS, Shares

EDGE = {"edgecolor": "black", "linewidth": 0.8}
NAMED = 0.09  # of the step; in narrower parts no number is written


@dataclass(frozen=True)
class Stage:
    """A version of the program: its time while no profiler records, as a share of the first's."""

    name: str
    shares: Shares
    time: float


def picture(stages: Sequence[Stage], *, title: str = "") -> Figure:
    """A row for each stage: the shares of its step, and a waterfall of its time.

    The first and the last bar of the waterfall are whole; those between are what a fix saved.
    Raises ValueError with fewer than two stages.
    """
    if len(stages) < 2:
        raise ValueError(f"{len(stages)} stages, expected two or more: before and after")
    figure = Figure(figsize=(10, 1.6 + 0.45 * (len(stages) + 1)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1))
    for row, stage in enumerate(stages):
        _shares(left, row, stage.shares)
    _waterfall(right, stages)
    left.set_yticks(range(len(stages) + 1), [*(stage.name for stage in stages), "all together"])
    left.set_ylim(len(stages) + 0.6, -0.6)
    left.set_xlim(0, 100)
    left.set_xlabel("share of the step (%)")
    right.set_xlabel("time (% of the slow script's); beside it: times as fast")
    for axes in (left, right):
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "left", "right"]].set_visible(False)
    there = [part for part in PARTS if any(stage.shares.parts()[part] for stage in stages)]
    handles = [Patch(label=part, edgecolor="black", **LOOKS[part]) for part in there]
    handles.append(Patch(label="saved by the fix", facecolor=PALETTE[7], edgecolor="black"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _shares(axes: Axes, row: int, shares: Shares) -> None:
    begin = 0.0
    for part in PARTS:
        share = shares.fraction(part)
        axes.barh(row, 100 * share, left=100 * begin, height=0.6, **LOOKS[part], **EDGE)
        if share > NAMED:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            middle = 100 * (begin + share / 2)
            axes.text(middle, row, f"{share:.0%}", ha="center", va="center", fontsize=8, bbox=box)
        begin += share


def _waterfall(axes: Axes, stages: Sequence[Stage]) -> None:
    times = [100 * stage.time for stage in stages]
    whole = {"height": 0.6, "facecolor": "#444444", **EDGE}
    axes.barh(0, times[0], **whole)
    axes.barh(len(times), times[-1], **whole)
    for row, (before, after) in enumerate(pairwise(times), 1):
        axes.barh(row, after - before, left=before, height=0.6, facecolor=PALETTE[7], **EDGE)
        edge = min(before, after)
        axes.plot([edge, edge], [row, row + 1], color="black", linewidth=0.6)
    for row, time in enumerate([*times, times[-1]]):
        before = times[row - 1] if 0 < row < len(times) else 0.0
        faster = times[0] / time
        axes.annotate(
            f"{faster:.0f} ×" if faster >= 10 else f"{faster:.1f} ×", (max(time, before), row),
            (4, 0), textcoords="offset points", va="center", fontsize=8,
        )  # fmt: skip
    axes.set_xlim(0, 1.12 * max(times))
