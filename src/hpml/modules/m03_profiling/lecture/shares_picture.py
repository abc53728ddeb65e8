"""Shares of a step as stacked bars: several steps, programs or ranks below each other."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.trace.layout import PALETTE
from hpml.trace.profiler.shares import PARTS, Shares

# A colour and, for prints without colour, a hatch for each part.
LOOKS = {
    "loading": {"facecolor": PALETTE[1], "hatch": "////"},
    "transforms": {"facecolor": PALETTE[4], "hatch": "...."},
    "forward": {"facecolor": PALETTE[0], "hatch": ""},
    "backward": {"facecolor": PALETTE[5], "hatch": ""},
    "optimizer": {"facecolor": PALETTE[2], "hatch": "\\\\\\\\"},
    "communication": {"facecolor": PALETTE[6], "hatch": "xxxx"},
    "other": {"facecolor": "white", "hatch": ""},
}
NAMED = 0.06  # of the axis; in narrower parts no number is written


def picture(found: Mapping[str, Shares], *, title: str = "") -> Figure:
    """A bar for each entry, named by its key, of the parts of its step in milliseconds.

    In a part stands its percentage of the step. A thin bar below is communication that was hidden.
    Raises ValueError where `found` is empty.
    """
    if not found:
        raise ValueError("there is no step, so there is nothing to draw")
    figure = Figure(figsize=(9, 1.5 + 0.55 * len(found)), layout="constrained")
    axes = figure.subplots()
    longest = max(one.step for one in found.values()) or 1e-9
    for row, one in enumerate(found.values()):
        left = 0.0
        for part, seconds in one.parts().items():
            if not seconds:
                continue
            look = LOOKS[part] | {"edgecolor": "black", "linewidth": 0.8}
            axes.barh(row, 1e3 * seconds, left=1e3 * left, height=0.6, **look)
            if seconds > NAMED * longest:
                text = f"{100 * one.fraction(part):.0f} %"
                middle = 1e3 * (left + seconds / 2)
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
                axes.text(middle, row, text, ha="center", va="center", fontsize=8, bbox=box)
            left += seconds
        if one.hidden:
            look = LOOKS["communication"] | {"edgecolor": "black", "linewidth": 0.8}
            axes.barh(row + 0.38, 1e3 * one.hidden, height=0.12, **look)
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("time of one step (ms)" + _below(found))
    axes.set_title(title, loc="left", fontsize=11)
    there = [part for part in PARTS if any(one.parts()[part] for one in found.values())]
    handles = [Patch(label=_name(part), edgecolor="black", **LOOKS[part]) for part in there]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _name(part: str) -> str:
    return {"communication": "communication, exposed", "other": "other, and idle"}.get(part, part)


def _below(found: Mapping[str, Shares]) -> str:
    hidden = any(one.hidden for one in found.values())
    return "; the thin bar is communication hidden behind computation" if hidden else ""
