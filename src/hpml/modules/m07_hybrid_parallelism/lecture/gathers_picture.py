"""Sharded layers over time: when each is gathered, computes, and scatters its gradients."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from hpml.modules.m07_hybrid_parallelism.lecture.gathers import Event
from hpml.trace.layout import PALETTE, tint

LOOK = {
    "gather": {"facecolor": PALETTE[2], "hatch": ""},
    "forward": {"facecolor": tint(0), "hatch": ""},
    "backward": {"facecolor": tint(1), "hatch": "////"},
    "scatter": {"facecolor": PALETTE[3], "hatch": "xxx"},
}
WORDS = {
    "gather": "gather its parameters",
    "forward": "forward",
    "backward": "backward",
    "scatter": "reduce-scatter its gradients",
}


def draw(panels: Mapping[str, Sequence[Event]], *, title: str = "") -> Figure:
    """A panel for each run of a rank, by name; in it a row for each layer, in ms.

    Wide boxes are passes, narrow ones collectives. Time 0 of a panel is its first event.
    Raises ValueError where a panel has no events.
    """
    for name, done in panels.items():
        if not done:
            raise ValueError(f"{name}: no layer was watched, so there is nothing to draw")
    layers = 1 + max(one.layer for done in panels.values() for one in done)
    longest = max(done[-1].end - done[0].start for done in panels.values())
    figure = Figure(figsize=(9, 1.0 + len(panels) * (0.55 + 0.36 * layers)), layout="constrained")
    places = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, done) in zip(places, panels.items(), strict=True):
        begin = min(one.start for one in done)
        for one in done:
            passes = one.what in ("forward", "backward")
            top, height = (one.layer - 0.42, 0.46) if passes else (one.layer + 0.08, 0.32)
            box = ((one.start - begin) * 1e3, top), (one.end - one.start) * 1e3, height
            edge = {"edgecolor": "black", "linewidth": 0.5, "hatch_linewidth": 0.3}
            axes.add_patch(Rectangle(*box, **LOOK[one.what], **edge))
        axes.set(xlim=(0, 1.01e3 * longest), ylim=(layers - 0.5, -0.5))
        axes.set_yticks(range(layers), [f"layer {k}" for k in range(layers)], fontsize="small")
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.set_title(name, loc="left", fontsize=9)
    places[-1].set_xlabel("time (ms)")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    handles = [
        Patch(**look, edgecolor="black", linewidth=0.5, label=WORDS[what])
        for what, look in LOOK.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure
