"""Accuracy over the batch, or over the rate: a line for each rule, a bar for its seeds."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpml.modules.m08_case_studies.lecture.large_batch import CLASSES, Curves
from hpml.predict.draw import COLOURS, LINES, MARKERS


def batch_picture(curves: Curves, title: str) -> Figure:
    """Test accuracy in percent over the batch."""
    figure, axes = _drawn(curves, title, curves)
    axes.set(xlabel="images in a batch")
    return figure


def rate_picture(curves: Curves, title: str, among: Iterable[str]) -> Figure:
    """Test accuracy in percent over the learning rate, as a multiple of the rule's.

    Each rule looks as in a picture of all those of `among`.
    """
    figure, axes = _drawn(curves, title, among)
    axes.set(xlabel="highest learning rate, as a multiple of that by the rule")
    return figure


def _drawn(curves: Curves, title: str, among: Iterable[str]) -> tuple[Figure, Axes]:
    names = list(among)
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    every = sorted({x for curve in curves.values() for x in curve})
    for number, (name, curve) in enumerate(curves.items()):
        # Beside each other, so that bars can be seen
        aside = 2 ** (0.05 * (number - (len(curves) - 1) / 2))
        means = [100 * sum(seeds) / len(seeds) for seeds in curve.values()]
        reach = [
            [mean - 100 * min(seeds) for mean, seeds in zip(means, curve.values(), strict=True)],
            [100 * max(seeds) - mean for mean, seeds in zip(means, curve.values(), strict=True)],
        ]
        place = names.index(name)
        look = {"color": COLOURS[place], "linestyle": LINES[place], "marker": MARKERS[place]}
        axes.errorbar([x * aside for x in curve], means, reach, capsize=3, label=name, **look)
    axes.axhline(100 / CLASSES, color="grey", linewidth=1, linestyle=":")
    axes.annotate("by chance", (every[1], 100 / CLASSES), xytext=(0, 3), **_GREY)
    axes.set_xticks(every, [f"{x:g}" if x >= 1 else f"1/{1 / x:g}" for x in every])
    axes.minorticks_off()
    axes.set_ylim(0)
    axes.set(ylabel="test images that are right (%)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left", fontsize=9)
    return figure, axes


_GREY = {"textcoords": "offset points", "color": "grey", "fontsize": 9}
