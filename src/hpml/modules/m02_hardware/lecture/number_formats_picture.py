"""Number formats as rows of bits, and what each costs and gains on a machine."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from hpml.modules.m02_hardware.lecture.number_formats import FORMATS, NumberFormat
from hpml.modules.m02_hardware.lecture.precision import Precision
from hpml.trace.layout import PALETTE

# Hatches for prints without colour
LOOKS = {
    "sign": {"facecolor": "white", "hatch": ""},
    "exponent: the range": {"facecolor": PALETTE[0], "hatch": "//"},
    "mantissa: the step": {"facecolor": PALETTE[1], "hatch": ""},
    "whole number": {"facecolor": PALETTE[2], "hatch": "xx"},
    "stored, not read": {"facecolor": "white", "hatch": "...."},
}
COLUMNS = ("largest", "smallest above 0", "step after 1")


def bits(formats: Sequence[NumberFormat] = FORMATS, *, title: str = "") -> Figure:
    """A row of bits for each format, the sign first; beside it its range and its step."""
    figure = Figure(figsize=(9.5, 0.8 + 0.45 * len(formats)), layout="constrained")
    axes = figure.subplots()
    names = list(LOOKS)
    width = max(one.stored for one in formats)
    for row, one in enumerate(formats):
        unread = one.stored - one.bits
        kinds = [0] + [1] * one.exponent + [2] * one.mantissa + [4] * unread
        if not one.exponent:  # two's complement: no bit of it is a sign alone
            kinds = [3] * one.bits
        for place, kind in enumerate(kinds):
            look = {"edgecolor": "black", "linewidth": 0.6, **LOOKS[names[kind]]}
            axes.add_patch(Rectangle((place, row - 0.35), 1, 0.7, **look))
        times = "" if one.exponent else " × scale"
        for column, value in enumerate((one.largest, one.smallest, one.step)):
            shown = f"{value:.3g}" if value < 1e4 or value > 1e6 else f"{value:,.0f}"
            axes.text(width + 4 + 8 * column, row, shown + times, ha="center", va="center")
    for column, name in enumerate(COLUMNS):
        axes.text(width + 4 + 8 * column, -0.75, name, ha="center", fontsize="small")
    axes.set(xlim=(-0.2, width + 8 * len(COLUMNS)), ylim=(len(formats) - 0.4, -1.1))
    axes.set_yticks(range(len(formats)), [one.name for one in formats])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    handles = [Patch(edgecolor="black", label=name, **look) for name, look in LOOKS.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def speed_and_error(measured: Sequence[Precision], *, title: str = "") -> Figure:
    """For each format a bar for each operation: GFLOP/s, and the relative error beside it."""
    operations = list(dict.fromkeys(one.operation for one in measured))
    names = list(dict.fromkeys(one.name for one in measured))
    figure = Figure(figsize=(9.5, 1.2 + 0.5 * len(names)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(operations)
    for number, operation in enumerate(operations):
        look = {"color": PALETTE[(0, 1)[number % 2]], "hatch": ("", "//")[number % 2]}
        look |= {"edgecolor": "black", "linewidth": 0.6, "height": height}
        for one in (one for one in measured if one.operation == operation):
            at = names.index(one.name) + (number - (len(operations) - 1) / 2) * height
            beside = {"va": "center", "fontsize": "small"}
            if one.rate is None:
                panels[0].text(0.6, at, "not in this processor", **beside)
            else:
                panels[0].barh(at, one.rate / 1e9 - 0.5, left=0.5, **look)
                panels[0].text(one.rate / 1e9 * 1.1, at, f"{one.rate / 1e9:,.3g}", **beside)
            panels[1].barh(at, one.error, left=1e-8, **look)
            panels[1].text(one.error * 1.2, at, f"{one.error:.2g}", **beside)
    most = max(one.rate for one in measured if one.rate) / 1e9
    panels[0].set(xscale="log", xlim=(0.5, 5 * most), xlabel="GFLOP/s, more is better")
    panels[1].set(xscale="log", xlim=(1e-8, 1), xlabel="relative error, less is better")
    panels[1].xaxis.set_major_locator(LogLocator(base=100, numticks=10))
    for axes in panels:
        axes.xaxis.set_minor_locator(NullLocator())
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    handles = [
        Patch(facecolor=PALETTE[n], hatch=("", "//")[n], edgecolor="black", label=operation)
        for n, operation in enumerate(operations)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
