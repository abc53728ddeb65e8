"""One page of the collectives: what four ranks have before and after each."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from hpml.modules.m01_parallel_sgd.lecture.collective_operations import COLLECTIVES
from hpml.trace.layout import tint

TITLE = "An all-reduce is a reduce-scatter and an all-gather: nobody needs a root"


@dataclass(frozen=True)
class Piece:
    """Part number `part` of the tensors of `ranks`, added up."""

    part: int
    ranks: frozenset[int]

    def __add__(self, other: "Piece") -> "Piece":
        if other.part != self.part or self.ranks & other.ranks:
            raise ValueError(f"{self} and {other}: only one part of different ranks is added up")
        return Piece(self.part, self.ranks | other.ranks)

    @property
    def label(self) -> str:
        """ "a2": part a of rank 2; "Σa": of several ranks."""
        letter = chr(ord("a") + self.part)
        return f"Σ{letter}" if len(self.ranks) > 1 else f"{letter}{min(self.ranks)}"


def before_and_after(name: str, world_size: int = 4) -> tuple[list[list[Piece]], list[list[Piece]]]:
    """What each rank has before and after the collective of that name in `COLLECTIVES`."""
    run, start = COLLECTIVES[name]
    begin = [
        [Piece(part, frozenset([rank])) for part in parts]
        for rank, parts in enumerate(start(world_size))
    ]
    return begin, run(begin)


def collectives(world_size: int = 4, *, title: str = TITLE) -> Figure:
    """A panel for each collective: one row per rank, its parts before on the left, after on the
    right.

    A square is a part: a letter for the part, a colour and a number for the rank it is from, all
    colours and Σ for the sum. Computed from `collective_operations.py`. Rank 0 is the
    root of those that have one.
    """
    figure = Figure(figsize=(9.6, 4.1), layout="constrained")
    panels = figure.subplots(2, len(COLLECTIVES) // 2).flat
    for axes, name in zip(panels, COLLECTIVES, strict=True):
        _panel(axes, name, world_size)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    words = "a2: part a of rank 2's tensor. Σa: the sum of all ranks' parts a. Rows are ranks."
    figure.supxlabel(words, x=0.01, ha="left", fontsize=8.5)
    return figure


def _panel(axes: Axes, name: str, size: int) -> None:
    gap = 1.5
    axes.set(xlim=(-0.9, 2 * size + gap + 0.1), ylim=(size * 1.25, -0.9))
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(name, fontsize=10, fontweight="bold")
    for left, words, state in zip(
        (0, size + gap), ("before", "after"), before_and_after(name, size), strict=True
    ):
        axes.text(left + size / 2, -0.4, words, ha="center", va="center", fontsize=8)
        for rank, pieces in enumerate(state):
            for place in range(size):
                look = {"fill": False, "edgecolor": "#bbbbbb", "linewidth": 0.5, "linestyle": ":"}
                axes.add_patch(Rectangle((left + place, rank * 1.25), 1, 1, **look))
            for place, piece in enumerate(pieces):
                # A single part stands in its own place of the whole tensor
                at = piece.part if len(pieces) == 1 else place
                _piece(axes, piece, left + at, rank * 1.25)
    for rank in range(size):
        axes.text(-0.2, rank * 1.25 + 0.5, rank, ha="right", va="center", fontsize=8)
    ends = (size + 0.25, size * 0.6), (size + gap - 0.25, size * 0.6)
    axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=9, color="black"))


def _piece(axes: Axes, piece: Piece, left: float, top: float) -> None:
    ranks = sorted(piece.ranks)
    wide = 1 / len(ranks)
    for number, rank in enumerate(ranks):
        axes.add_patch(
            Rectangle((left + number * wide, top), wide, 1, facecolor=tint(rank), linewidth=0)
        )
    axes.add_patch(Rectangle((left, top), 1, 1, fill=False, edgecolor="black", linewidth=0.8))
    axes.text(left + 0.5, top + 0.52, piece.label, ha="center", va="center", fontsize=7)
