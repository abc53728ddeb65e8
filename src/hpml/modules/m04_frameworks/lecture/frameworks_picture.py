"""The frameworks over time: a bar each, from its first release to its end or to today."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.modules.m04_frameworks.lecture.frameworks import KINDS, MADE, Framework
from hpml.trace.layout import PALETTE, tint

TODAY = MADE + 0.9
LOOKS = {"layers": 4, "graph": 1, "run": 0, "added": 5}  # places in the palette


def timeline_picture(shown: Sequence[Framework], *, title: str = "") -> Figure:
    """A bar for each framework, in groups by kind; beside it what it splits, over what.

    A full bar is still developed, a pale one with a hatch is not; "→" names the framework that
    took up its code or its makers. Draws the frameworks in the order given.
    """
    figure = Figure(figsize=(10, 0.27 * len(shown) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, one in enumerate(shown):
        _bar(axes, row, one)
        if row and shown[row - 1].kind != one.kind:
            axes.axhline(row - 0.5, color="#999999", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [one.name for one in shown], fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    begin = min(one.first for one in shown)
    axes.set_xlim(begin - 0.3, TODAY + 0.3)
    years = range(begin, MADE + 1, 2)
    axes.set_xticks(years, [str(year) for year in years])
    axes.set_xlabel("year")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in shown)]
    keys = [
        Patch(facecolor=PALETTE[LOOKS[kind]], edgecolor="black", label=KINDS[kind])
        for kind in kinds
    ]
    ended = Patch(
        facecolor="white",
        edgecolor="#555555",
        hatch="////",
        label="ended, or no release for 2 years",
    )
    figure.legend(handles=[*keys, ended], loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _bar(axes: Axes, row: int, one: Framework) -> None:
    end = TODAY if one.until is None else max(one.until + 0.5, one.first + 0.6)
    look = {"linewidth": 0.8}
    if one.developed:
        look |= {"facecolor": PALETTE[LOOKS[one.kind]], "edgecolor": "black"}
    else:
        look |= {"facecolor": tint(LOOKS[one.kind]), "edgecolor": "#555555", "hatch": "////"}
    axes.barh(row, end - one.first, left=one.first, height=0.62, **look)
    cut = f"{', '.join(one.splits)} over {one.over}" if one.splits else "not distributed"
    cut += f"  → {one.into}" if one.into else ""
    text = {"fontsize": 7.5, "va": "center"}
    if one.developed:  # inside, on white; there is no room to the right
        axes.text(
            TODAY - 0.1,
            row,
            cut,
            ha="right",
            bbox={"facecolor": "white", "pad": 1, "lw": 0},
            **text,
        )
    else:
        axes.text(end + 0.12, row, cut, ha="left", **text)
