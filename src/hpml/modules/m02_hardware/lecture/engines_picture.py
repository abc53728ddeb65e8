"""Where the milliseconds of a step go, by engine."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from hpml.modules.m02_hardware.lecture.engines import KINDS, seconds
from hpml.modules.m02_hardware.lecture.layers import Layer
from hpml.trace.layout import PALETTE

HATCHES = ("", "////", "....", "\\\\\\\\")
COLOURS = (PALETTE[0], PALETTE[1], PALETTE[2], "#cccccc")


def engines(measured: Mapping[str, Sequence[Layer]]) -> Figure:
    """A bar for each engine: milliseconds of the forward and the backward passes of all layers,
    stacked by kind of layer. The title says how much faster the second and the last are than the
    first."""
    figure = Figure(figsize=(9, 0.9 + 0.6 * len(measured)), layout="constrained")
    axes = figure.subplots()
    lefts = [0.0] * len(measured)
    for kind, colour, hatch in zip(KINDS, COLOURS, HATCHES, strict=True):
        widths = [1e3 * sum(seconds(rows, kind)) for rows in measured.values()]
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        axes.barh(range(len(measured)), widths, left=lefts, height=0.65, label=kind, **look)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    for row, total in enumerate(lefts):
        axes.text(total, row, f" {total:.0f} ms", va="center", fontsize="small")
    axes.set_yticks(range(len(measured)), list(measured))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * max(lefts))
    axes.set_xlabel("all layers, forward and backward (ms)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small", loc="lower right", frameon=False)
    axes.set_title(
        f"One processor, one network: {lefts[0] / lefts[1]:.1f} times as fast with the library, "
        f"{lefts[0] / lefts[-1]:.1f} times with its layout too",
        loc="left",
        fontsize=10,
    )
    return figure
