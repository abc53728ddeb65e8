"""Bytes of tensors by kind, one bar for each way to train, beside what a formula gives."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import PALETTE


def kinds_picture(
    measured: Mapping[str, Mapping[str, float]],
    formula: Mapping[str, float],
    *,
    title: str = "",
    line: str = "formula, the sum",
    at: str = "MB on a rank",
) -> Figure:
    """A bar for each row of `measured`, of its bytes by kind; in MB.

    A thick black line stands at that row's bytes in `formula`; `line` is what the legend calls it,
    and `at` the label of the axis.
    """
    kinds = list(dict.fromkeys(kind for row in measured.values() for kind in row))
    figure = Figure(figsize=(9, 1.2 + 0.5 * len(measured)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(measured.values()):
        left = 0.0
        for number, kind in enumerate(kinds):
            look = {"color": PALETTE[number], "hatch": HATCHES[number], "edgecolor": "black"}
            wide = row.get(kind, 0) / 1e6
            axes.barh(place, wide, left=left, height=0.6, label=None if place else kind, **look)
            left += wide
    for place, name in enumerate(measured):
        if name in formula:
            axes.plot([formula[name] / 1e6] * 2, [place - 0.42, place + 0.42], "k", linewidth=4)
    axes.set_yticks(range(len(measured)), list(measured))
    axes.set_ylim(len(measured) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel(at)
    axes.set_title(title, loc="left")
    handles, _ = axes.get_legend_handles_labels()
    if formula:
        handles.append(Line2D([], [], color="black", linewidth=4, label=line))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
    return figure
