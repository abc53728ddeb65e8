"""Time of one operator over the number of elements: a flat part, then a slope."""

from matplotlib.figure import Figure

from hpml.modules.m04_frameworks.lecture.dispatch import Curve
from hpml.trace.layout import PALETTE


def dispatch_picture(curve: Curve, *, title: str) -> Figure:
    """The curve on two logarithmic axes, with its price as a line and its knee marked."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    micros = [1e6 * seconds for seconds in curve.seconds.values()]
    axes.loglog(list(curve.seconds), micros, "-o", color=PALETTE[5], label="torch.add, one thread")
    axes.axhline(1e6 * curve.price, color=PALETTE[6], linestyle="--", label="price of a call")
    if curve.knee < max(curve.seconds):
        axes.axvline(curve.knee, color="black", linestyle=":", label="knee: twice the price")
    axes.set_xlabel("elements (float32)")
    axes.set_ylabel("time of one call (µs)")
    axes.grid(alpha=0.3)
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(fontsize=8)
    return figure
