"""Backward and its messages over time: one panel for each way to send gradients."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from hpml.modules.m04_frameworks.lecture.gradients_leaving import Step
from hpml.trace.layout import PALETTE

WORK, TRAVEL = PALETTE[7], PALETTE[0]


def leaving_picture(steps: Mapping[str, Step], *, title: str = "") -> Figure:
    """For each way, by its name: what rank 0 computes, and below it a bar for each message, from
    where it leaves to where it has arrived. All panels have the same axis, in ms."""
    most = max(len(step.calls) for step in steps.values())
    figure = Figure(figsize=(9, 0.9 + len(steps) * (0.7 + 0.2 * most)), layout="constrained")
    panels = figure.subplots(len(steps), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, step) in zip(panels, steps.items(), strict=True):
        look = {"height": 0.8, "edgecolor": "black", "linewidth": 0.7}
        axes.barh(0, 1e3 * step.ended, color=WORK, hatch="///", label="backward", **look)
        for place, call in enumerate(step.calls, 1):
            end = step.averaged if call.finished is None else call.finished
            label = "a gradient on its way" if place == 1 else None
            left, length = 1e3 * call.issued, 1e3 * (end - call.issued)
            axes.barh(place, length, left=left, color=TRAVEL, label=label, **look)
        axes.axvline(1e3 * step.ended, color="black", linestyle=":", linewidth=1.2)
        axes.axvline(1e3 * step.averaged, color="black", linewidth=1.2)
        axes.text(1e3 * step.averaged, -0.9, "averaged ", ha="right", va="bottom", fontsize="small")
        axes.set_ylim(len(step.calls) + 0.6, -0.7)
        axes.set_yticks([])
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.spines[["top", "left", "right"]].set_visible(False)
    panels[-1].set_xlim(left=0)
    panels[-1].set_xlabel("time since backward began on rank 0 (ms)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
