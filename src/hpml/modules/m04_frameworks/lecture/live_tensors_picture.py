"""The tensors of a forward and a backward pass: their sum, and each in its place in memory."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from hpml.modules.m04_frameworks.lecture.live_tensors import KINDS, Recording, offsets
from hpml.trace.layout import PALETTE

MB = 1e6
THINNEST = 2000  # of the whole height; what is thinner is not drawn
# By kind: colour, and what tells it apart in a print without colour
LOOKS = dict(
    zip(
        KINDS,
        (
            ("#bbbbbb", ""),
            (PALETTE[2], "...."),
            (PALETTE[0], ""),
            (PALETTE[1], "\\\\\\\\"),
            (PALETTE[6], "////"),
        ),
        strict=True,
    )
)


def draw(recording: Recording, *, title: str) -> Figure:
    """Above, the bytes that are alive in each step, and those if nothing were freed. Below, each
    tensor as a bar in one block of memory: from birth to death, as high as its bytes, in its place
    by `offsets`."""
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2.2))
    live = [nbytes / MB for nbytes in recording.live()]
    never = [nbytes / MB for nbytes in recording.never_freed()]
    above.step(range(len(never)), never, "k:", where="mid")
    above.step(range(len(live)), live, "k", where="mid", linewidth=1.6)
    above.set(ylim=(0, 1.1 * max(never)), ylabel="alive (MB)")
    for word, side in (("forward ", "right"), (" backward", "left")):
        above.text(recording.turn - 0.5, max(never), word, ha=side, va="top", fontsize="small")
    top = _bars(below, recording)
    below.set(xlim=(-1.5, len(live) - 0.5), ylim=(0, 1.05 * top))
    below.set(xlabel="step (operator of forward, then of backward)", ylabel="place in memory (MB)")
    for axes in (above, below):
        axes.axvline(recording.turn - 0.5, color="black", linewidth=0.8, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
    seen = {one.kind for one in recording.tensors if one.nbytes / MB >= top / THINNEST}
    handles: list[Patch | Line2D] = [
        Patch(facecolor=LOOKS[kind][0], hatch=LOOKS[kind][1], edgecolor="white", label=kind)
        for kind in KINDS
        if kind in seen
    ]
    handles.append(Line2D([], [], color="black", label="sum of what is alive"))
    handles.append(Line2D([], [], color="black", linestyle=":", label="if nothing were freed"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _bars(axes: Axes, recording: Recording) -> float:
    """A bar for each tensor, with its operator's name where it fits; returns the top in MB."""
    places = offsets(recording.tensors)
    top = max(at + one.nbytes for at, one in zip(places, recording.tensors, strict=True)) / MB
    for at, one in zip(places, recording.tensors, strict=True):
        if one.nbytes / MB < top / THINNEST:
            continue
        colour, hatch = LOOKS[one.kind]
        begin, width = one.born - 0.5, one.last - one.born + 1
        bar = Rectangle((begin, at / MB), width, one.nbytes / MB, facecolor=colour, hatch=hatch)
        bar.set(edgecolor="white", linewidth=0.5)
        axes.add_patch(bar)
        if one.nbytes / MB > top / 30 and width > len(one.operator) + 2:
            middle = (at + one.nbytes / 2) / MB
            axes.text(begin + 0.6, middle, one.operator, va="center", fontsize=6.5)
    return top
