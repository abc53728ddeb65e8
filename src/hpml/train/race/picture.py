"""The tries on one chart: accuracy over seconds, a line for each, the best one marked."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpml.train.draw import BLUE, DASHES, GREY, ORANGE, RED, SKY
from hpml.train.race import tries
from hpml.train.race.goals import Goal
from hpml.train.race.table import settings
from hpml.train.race.tries import Try

NAMED = 7  # the latest tries have a name and a colour; earlier ones are thin and grey
COLOURS = ("black", ORANGE, SKY, RED, "#009E73", "#CC79A7", GREY)
MARKERS = ("s", "^", "v", "D", "P", "*", "h")
ENDS = {tries.BELOW: "not reached", tries.INTERRUPTED: "interrupted", tries.FAILED: "failed"}


def race_picture(shown: Sequence[Try], goal: Goal) -> Figure:
    """A line for each try that was tested at least once; the best one is thick, and the dashed line
    is the goal. A cross is where a try ended without reaching it.
    """
    quickest = tries.best(shown)
    numbered = [(number, one) for number, one in enumerate(shown, 1) if one.points]
    named = {one.id for _, one in numbered[-NAMED:]} | ({quickest.id} if quickest else set())
    figure = Figure(figsize=(9.5, 3.8 + 0.2 * len(named)), layout="constrained")
    axes = figure.subplots()
    for place, (number, one) in enumerate(numbered):
        _line(axes, one, number, place, goal, one.id in named, one is quickest)
    axes.axhline(100 * goal.accuracy, color="black", linestyle=(0, (6, 4)), linewidth=1)
    axes.annotate(
        f"goal: {goal.accuracy:.0%}",
        (1, 100 * goal.accuracy),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
    )
    highest = max((p.accuracy for _, one in numbered for p in one.points), default=goal.accuracy)
    axes.set_xlim(left=0)
    axes.set_ylim(0, min(102, 100 * max(highest, goal.accuracy) + 8))
    axes.set(xlabel="seconds since the first batch was read", ylabel="test accuracy (%)")
    axes.grid(alpha=0.3)
    axes.set_title(title(shown), loc="left", fontsize=11)
    if numbered:
        figure.legend(loc="outside lower left", ncols=1, fontsize=9, frameon=False)
    return figure


def title(shown: Sequence[Try]) -> str:
    """The message: what the best try needed, and how much of the first one's time that is."""
    reached = [one for one in shown if one.status == tries.REACHED]
    quickest = tries.best(shown)
    if quickest is None:
        return "No try has reached the goal yet" + " (SYNTHETIC)" * _synthetic(shown)
    words = f"The best try needs {quickest.seconds:.1f} s"
    if len(reached) > 1 and reached[0] is not quickest:
        words += f", {reached[0].seconds / quickest.seconds:.1f} times as fast as the first"
    return words + " (SYNTHETIC images)" * _synthetic(shown)


def _synthetic(shown: Sequence[Try]) -> bool:
    return any(one.synthetic for one in shown)


def _line(
    axes: Axes, one: Try, number: int, place: int, goal: Goal, named: bool, is_best: bool
) -> None:
    seconds = [0.0, *(point.seconds for point in one.points)]
    per_cent = [10.0, *(100 * point.accuracy for point in one.points)]  # before it: guessing
    look: dict[str, Any] = {"color": "#BBBBBB", "linewidth": 0.8}
    if named:
        look = {
            "color": COLOURS[place % len(COLOURS)],
            "linestyle": DASHES[place % len(DASHES)],
            "marker": MARKERS[place % len(MARKERS)],
            "markersize": 5,
            "linewidth": 1.4,
            "label": f"{number}: {_short(settings(one, goal))}",
        }
        if ended := ENDS.get(one.status):
            look["label"] += f" ({ended})"
    if is_best:
        look |= {"color": BLUE, "linestyle": "-", "marker": "o", "linewidth": 3}
        look["label"] += f": the best, {one.seconds:.1f} s"
    axes.plot(seconds, per_cent, **look)
    if named:
        axes.annotate(
            str(number), (seconds[-1], per_cent[-1]), xytext=(9, 3), textcoords="offset points"
        )
    if one.status != tries.REACHED:
        axes.plot(seconds[-1], per_cent[-1], "X", markersize=9, color=look["color"])
    elif is_best:
        axes.plot(seconds[-1], per_cent[-1], "o", markersize=15, markerfacecolor="none", color=BLUE)


def _short(words: str, limit: int = 110) -> str:
    return words if len(words) <= limit else f"{words[: limit - 1]}…"
