"""In which phases a rank is slower than the others: a kind of fault has a shape of its own."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import PALETTE
from hpml.trace.profiler.straggler import Straggler

SHOWN = ("loading", "forward", "backward")


def slower_phases(verdict: Straggler, rank: int) -> dict[str, float]:
    """How many times as long `rank` takes for a phase as the others do (medians); by phase.

    Phases without time on the others are left out.
    """
    others = np.arange(len(verdict.waited)) != rank
    found = {}
    for phase in SHOWN:
        own = verdict.phases[phase]
        usual = float(np.median(own[others]))
        if usual > 0:
            found[phase] = float(np.median(own[rank])) / usual
    return found


def shapes_of_faults(faults: Mapping[str, Mapping[str, float]], *, title: str = "") -> Figure:
    """A group of bars for each phase, in it a bar for each fault: see `slower_phases`."""
    figure = Figure(figsize=(9, 3.0), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(faults)
    for number, (name, times) in enumerate(faults.items()):
        at = [k + (number - (len(faults) - 1) / 2) * width for k in range(len(SHOWN))]
        look = {"color": PALETTE[number], "hatch": HATCHES[number], "edgecolor": "black"}
        heights = [times.get(phase, 0.0) for phase in SHOWN]
        bars = axes.bar(at, heights, width, label=name, **look)
        labels = axes.bar_label(bars, [f"{height:.1f}" for height in heights], fontsize="small")
        for label in labels:
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.axhline(1.0, color="black", linestyle="--", linewidth=1)
    axes.set_xticks(range(len(SHOWN)), SHOWN)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("time, others = 1")
    axes.margins(y=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left")
    figure.legend(loc="outside lower center", ncols=len(faults), frameon=False)
    return figure
