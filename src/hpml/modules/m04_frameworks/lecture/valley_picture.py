"""Paths into the valley: small panels with the same contours, also to step through."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from hpml.modules.m04_frameworks.lecture.valley import LOWEST, START, Path, valley
from hpml.trace.stepper import show_steps

COLUMNS = 3
SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # contours, of the loss at the start
WIDE, HIGH = (0.0, 8.4), (0.4, 3.6)  # of the first and of the second weight


def valley_picture(
    found: Mapping[str, Path],
    *,
    until: int | None = None,
    title: str = "",
    against: Mapping[str, Path] | None = None,
    directions: tuple[str, str] = ("first weight", "second weight"),
) -> Figure:
    """A panel for each path, by name: a dot for each step, up to step `until`.

    `against` has for some names a second path, as a wide grey line under the first. `directions`
    names the axes.
    """
    first, second = np.meshgrid(np.linspace(*WIDE, 120), np.linspace(*HIGH, 80))
    heights = valley(first, second)
    levels = [share * valley(*START) for share in SHARES]
    columns = 2 if len(found) == 4 else min(COLUMNS, len(found))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(9, 0.5 + 2.3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (name, path) in zip(panels.flat, found.items(), strict=False):
        axes.contour(first, second, heights, levels=levels, colors="#c8c8c8", linewidths=0.8)
        if against and name in against:
            axes.plot(*np.array(against[name].points).T, color="#b0b0b0", linewidth=5, zorder=1.5)
        went = np.array(path.points[: None if until is None else until + 1])
        look = {"color": "#0072B2", "linewidth": 0.8, "marker": "o", "markersize": 2.2}
        axes.plot(*went.T, **look)
        end = {"color": "#D55E00", "markeredgecolor": "black", "markersize": 8}
        axes.plot(*went[-1], "X", linestyle="none", label="last step drawn", **end)
        look = {"color": "black", "markersize": 11, "zorder": 4}
        axes.plot(*LOWEST, "+", linestyle="none", label="lowest point", **look)
        axes.set(xlim=WIDE, ylim=HIGH)
        axes.set_title(_headline(name, path), fontsize=9)
    panels[0, 0].legend(loc="lower right", fontsize=8, framealpha=1)
    for axes in panels.flat[len(found) :]:
        axes.set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel(directions[0])
    for row in panels:
        row[0].set_ylabel(directions[1])
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _headline(name: str, path: Path) -> str:
    steps = "does not stay at the bottom" if path.steps is None else f"{path.steps} steps"
    return f"{name}, learning rate {path.rate:g}: {steps}"


def step_through_paths(found: Mapping[str, Path], *, title: str) -> None:
    """Show the picture in a notebook, and below it a slider over the steps."""
    last = max(len(path.points) for path in found.values()) - 1

    def sentence(step: int) -> str:
        losses = (f"{rule} {valley(*path.points[step]):.2g}" for rule, path in found.items())
        return f"After step {step} the loss is: {', '.join(losses)}"

    show_steps(
        valley_picture(found, title=title),
        title,
        last=last,
        frame=lambda step: valley_picture(found, until=step),
        sentence=sentence,
    )
