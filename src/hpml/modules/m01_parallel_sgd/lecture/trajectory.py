"""Paths of gradient descent over a loss of two weights."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from hpml.modules.m01_parallel_sgd.lecture.updates import Update

COLOURS = "cividis_r"  # the staler the darker, also in a print without colour
FINE = 61  # points of the grid, per axis, on which the loss is worked out


def plane_loss(
    inputs: np.ndarray, outputs: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Half the mean squared error of a plane with two weights, up to a constant, by its weights.

    `inputs` (n, 2), `outputs` (n,): what `trajectories` takes, for grids of weights.
    """
    (a, b), (_, c) = inputs.T @ inputs / len(inputs)
    d, e = inputs.T @ outputs / len(inputs)

    def loss(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return (a * first**2 + 2 * b * first * second + c * second**2) / 2 - d * first - e * second

    return loss


def trajectories(
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    start: Sequence[float],
    rows: Mapping[str, Mapping[str, Sequence[Update]]],
    *,
    title: str = "",
) -> Figure:
    """Where the weights went, on contours of the loss: a row of panels for each of `rows`.

    `loss(first, second)` is elementwise. Each panel has the log of one run, by its name: a dot for
    each update, the darker and the larger the staler the gradient, on a line from `start`; a cross
    is where it ended, a plus the lowest point of the grid.
    """
    logs = [log for row in rows.values() for log in row.values()]
    points = np.array([start, *(update.weights for log in logs for update in log)])
    centre = (points.max(0) + points.min(0)) / 2
    half = (points.max(0) - points.min(0)) * 0.55 + 1e-9
    axes_of = [np.linspace(c - h, c + h, FINE) for c, h in zip(centre, half, strict=True)]
    first, second = np.meshgrid(*axes_of)
    heights = loss(first, second)
    lowest = np.unravel_index(heights.argmin(), heights.shape)
    above = np.geomspace(0.01, 1, 9) * (heights.max() - heights.min())
    stalest = max((update.staleness for log in logs for update in log), default=0)
    norm = BoundaryNorm(_bounds(stalest), 256)

    columns = max(len(row) for row in rows.values())
    figure = Figure(figsize=(9, 0.6 + 2.3 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), columns, sharex=True, sharey=True, squeeze=False)
    for line, (name, row) in zip(panels, rows.items(), strict=True):
        line[0].set_ylabel(f"{name}\nsecond weight")
        for axes, (run, log) in zip(line, row.items(), strict=False):
            axes.contour(first, second, heights - heights.min(), levels=above, colors="#c8c8c8")
            path = np.array([start, *(update.weights for update in log)])
            axes.plot(*path.T, color="#555555", linewidth=0.7)
            stale = np.array([update.staleness for update in log])
            look = {"cmap": COLOURS, "norm": norm, "edgecolors": "black", "linewidths": 0.4}
            axes.scatter(*path[1:].T, c=stale, s=14 + 4 * np.minimum(stale, 12), zorder=3, **look)
            axes.plot(*path[-1], "X", color="#D55E00", markeredgecolor="black", markersize=9)
            axes.plot(first[lowest], second[lowest], "+", color="black", markersize=12, zorder=4)
            axes.set_title(run, fontsize=9)
        for axes in line[len(row) :]:
            axes.set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel("first weight")
    if stalest:
        bar = figure.colorbar(ScalarMappable(norm, COLOURS), ax=panels, shrink=0.8, aspect=30)
        bar.set_label("staleness (updates by others meanwhile)")
        ends = list(pairwise(norm.boundaries))
        bar.set_ticks([(a + b) / 2 for a, b in ends], labels=[_range(a, b) for a, b in ends])
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _bounds(stalest: int) -> list[float]:
    """Of the classes 0, 1, 2, 3, 4-5, 6-8, 9-12, ...: as many as are needed."""
    edges = [-0.5, 0.5, 1.5, 2.5, 3.5, 5.5, 8.5, 12.5]
    while edges[-1] < stalest:
        edges.append(edges[-1] * 2 + 0.5)
    return [edge for k, edge in enumerate(edges) if k < 2 or edges[k - 1] < stalest]


def _range(low: float, high: float) -> str:
    first, last = int(low + 0.5), int(high - 0.5)
    return str(first) if first == last else f"{first}-{last}"
