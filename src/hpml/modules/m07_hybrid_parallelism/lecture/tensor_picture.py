"""Megatron's pair of layers as matrices: the first split by columns, the second by rows.

Shoeybi et al. 2019, Megatron-LM, section 3: Y = GELU(X A), Z = Y B. On two ranks A = [A0 A1] and
B = [B0; B1], so Y = [Y0 Y1] and Z = Y0 B0 + Y1 B1: one sum over the ranks on the way forward (g),
and one on the way back (f), of the gradient of X.
"""

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import tint

WHOLE = "#e4e4e4"
B, W, H = 1.0, 0.75, 1.9  # as drawn: rows of the batch, width of the layer, width inside of it
GAP = 0.9
COLUMNS = (W, W, H, H, W, W, W)  # widths of X, what f does, A, Y, B, what g does, Z

Split = Literal["whole", "columns", "rows"]


def column_then_row(ranks: int = 2, *, title: str = "") -> Figure:
    """Which part of each matrix is on which rank, forward and backward, and what is added up.

    Colours are ranks, grey is on every rank. b rows of X are the tokens of a batch, w is the width
    of the layer, h that inside the pair (4 w in a transformer).
    """
    figure = Figure(figsize=(9, 4.9), layout="constrained")
    forward, backward = figure.subplots(2, 1)
    places = [sum(COLUMNS[:k]) + GAP * k for k in range(len(COLUMNS))]
    for axes in (forward, backward):
        axes.set(xlim=(-0.15, places[-1] + W + 0.15), ylim=(-0.55, H + 0.45), aspect="equal")
        axes.axis("off")

    x, f, a, y, b, g, z = places
    _matrix(forward, x, (W, B), "whole", ranks, "X", "b × w")
    _words(forward, f, "f: copy,\nnothing\nis sent")
    _matrix(forward, a, (H, W), "columns", ranks, "A", "w × h")
    _matrix(forward, y, (H, B), "columns", ranks, "Y = GELU(X A)", "b × h")
    _matrix(forward, b, (W, H), "rows", ranks, "B", "h × w")
    _summands(forward, g, ranks, "Z")
    _matrix(forward, z, (W, B), "whole", ranks, "Z", "b × w")
    signs = ("", "×", "→", "×", "=", "g: all-\nreduce")
    _between(forward, places, signs, backwards=False)
    forward.set_title("forward", loc="left", fontsize=10)

    _matrix(backward, x, (W, B), "whole", ranks, "∂X", "b × w")
    _summands(backward, f, ranks, "∂X")
    _matrix(backward, a, (H, W), "columns", ranks, "A", "used transposed")
    _matrix(backward, y, (H, B), "columns", ranks, "∂Y", "b × h")
    _matrix(backward, b, (W, H), "rows", ranks, "B", "used transposed")
    _words(backward, g, "g: copy,\nnothing\nis sent")
    _matrix(backward, z, (W, B), "whole", ranks, "∂Z", "b × w")
    signs = ("f: all-\nreduce", "=", "×", "←", "×", "")
    _between(backward, places, signs, backwards=True)
    backward.set_title("backward, from right to left", loc="left", fontsize=10)

    figure.legend(
        handles=_legend(ranks), loc="outside lower center", ncols=ranks + 1, frameon=False
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def tokens_then_columns(ranks: int = 2, *, title: str = "") -> Figure:
    """What of its activations each rank has around a pair of layers: without sequence parallelism,
    and with it (Korthikanti et al. 2022, section 4.2.2).

    A matrix has a row for each token. Colours are ranks, grey is on every rank.
    """
    rows: dict[str, tuple[Split, str, str]] = {
        "tensor parallelism": ("whole", "f: nothing\nto send", "g: all-\nreduce"),
        "with sequence parallelism": ("rows", "all-\ngather", "reduce-\nscatter"),
    }
    names = ("layer norm", "column layer, GELU", "dropout, residual")
    gap = 2 * GAP
    places = (0.0, W + gap, W + H + 2 * gap)
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    panels = figure.subplots(len(rows), 1)
    for axes, (row, (split, before, after)) in zip(panels, rows.items(), strict=True):
        axes.set(xlim=(-0.4, places[-1] + W + 0.4), ylim=(0.2, 1.85), aspect="equal")
        axes.axis("off")
        axes.set_title(row, loc="left", fontsize=10)
        for place, name, wide in zip(places, names, (W, H, W), strict=True):
            kept: Split = "columns" if wide == H else split
            _matrix(axes, place, (wide, B), kept, ranks, name, "")
        for place, wide, sign in ((places[0], W, before), (places[1], H, after)):
            _sent(axes, place + wide + gap / 2, sign, backwards=False)
    figure.legend(
        handles=_legend(ranks), loc="outside lower center", ncols=ranks + 1, frameon=False
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _legend(ranks: int) -> list[Patch]:
    handles = [
        Patch(facecolor=tint(r), hatch=HATCHES[r % len(HATCHES)], edgecolor="black", label=name)
        for r, name in enumerate(f"rank {r}" for r in range(ranks))
    ]
    return [*handles, Patch(facecolor=WHOLE, edgecolor="black", label="the same on every rank")]


def _matrix(
    axes: Axes,
    left: float,
    size: tuple[float, float],
    split: Split,
    ranks: int,
    name: str,
    shape: str,
) -> None:
    wide, high = size
    bottom = (H - high) / 2
    if split == "whole":
        _part(axes, (left, bottom), size, None)
    for rank in range(ranks if split != "whole" else 0):
        if split == "columns":
            _part(axes, (left + rank * wide / ranks, bottom), (wide / ranks, high), rank)
        else:
            below = bottom + (ranks - 1 - rank) * high / ranks
            _part(axes, (left, below), (wide, high / ranks), rank)
    axes.text(left + wide / 2, bottom + high + 0.12, name, ha="center", va="bottom", fontsize=9)
    axes.text(left + wide / 2, bottom - 0.1, shape, ha="center", va="top", fontsize=7.5)


def _summands(axes: Axes, left: float, ranks: int, name: str) -> None:
    """One matrix of the whole shape from each rank, which have to be added up."""
    step = 0.16
    bottom = (H - B) / 2
    for rank in reversed(range(ranks)):
        corner = (left + rank * step - step * (ranks - 1) / 2, bottom - rank * step / 2)
        _part(axes, corner, (W, B), rank)
    names = " + ".join(f"{name}{'₀₁₂₃₄₅₆₇'[rank]}" for rank in range(ranks))
    axes.text(left + W / 2, bottom + B + 0.12, names, ha="center", va="bottom", fontsize=9)


def _part(
    axes: Axes, corner: tuple[float, float], size: tuple[float, float], rank: int | None
) -> None:
    look = {"facecolor": WHOLE if rank is None else tint(rank), "edgecolor": "black"}
    hatch = "" if rank is None else HATCHES[rank % len(HATCHES)]
    axes.add_patch(Rectangle(corner, *size, hatch=hatch, linewidth=0.8, **look))


def _words(axes: Axes, left: float, words: str) -> None:
    axes.text(left + W / 2, H / 2, words, ha="center", va="center", fontsize=8)


def _between(axes: Axes, places: Sequence[float], signs: Sequence[str], backwards: bool) -> None:
    """The sign between each matrix and the next; what is sent stands over an arrow."""
    for place, width, sign in zip(places, COLUMNS, signs, strict=False):
        middle = place + width + GAP / 2
        if ":" not in sign:
            axes.text(middle, H / 2, sign, ha="center", va="center", fontsize=11)
            continue
        _sent(axes, middle, sign, backwards)


def _sent(axes: Axes, middle: float, words: str, backwards: bool) -> None:
    ends = [(middle - 0.16, H / 2 - 0.42), (middle + 0.16, H / 2 - 0.42)]
    colour = "black" if "nothing" in words else "#B2182B"
    look = {"arrowstyle": "-|>", "mutation_scale": 12, "linewidth": 1.8, "color": colour}
    axes.add_patch(FancyArrowPatch(*(ends[::-1] if backwards else ends), shrinkA=0, **look))
    axes.text(middle, H / 2 + 0.05, words, ha="center", va="center", fontsize=7.5, color=colour)
