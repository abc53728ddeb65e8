"""The picture of an answer to tensor_parallel: which rank has read which part of which weight."""

from functools import partial
from typing import TYPE_CHECKING

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png
from hpml.modules.m07_hybrid_parallelism.checks._parallel_layers import (
    EXAMPLE,
    FEATURES,
    HEADS,
    STAGES,
    drive,
    inputs,
    reads,
    serve,
    shapes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hpml.ranks.evidence import Evidence

RANKS, HIDDEN = EXAMPLE
SEED = 7


def slices_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: both layers on the ranks of the text's example."""
    given = inputs(SEED, RANKS)
    launches = {}
    for stage in STAGES:
        sent, server = serve(given[stage])
        work = partial(drive, stage=stage)
        launches[stage] = at_work(check, source, work, sent, serve=server)
    words = (
        f"Which of {RANKS} ranks has read which part of which weight in your answer: {HIDDEN} "
        f"hidden numbers, {HEADS} heads of {FEATURES // HEADS} features"
    )
    return Picture(png(drawn(launches)), words)


def drawn(launches: "dict[str, Evidence]") -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    from hpml.trace.layout import tint

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    panels = figure.subplots(2, 5)
    for row, (stage, evidence) in zip(panels, launches.items(), strict=True):
        whole = shapes(stage, HIDDEN)
        for axes in row[len(whole) :]:
            axes.set_axis_off()
        for axes, (name, shape) in zip(row, whole.items(), strict=False):
            high, wide = shape if len(shape) == 2 else (shape[0], 6)
            readers: dict[tuple[int, ...], list[int]] = {}
            for rank in evidence.ranks:
                for weight, *where in reads(rank):
                    if weight == name:
                        readers.setdefault(tuple(where), []).append(rank.rank)
            for (dim, start, stop), ranks in readers.items():
                corner, size = ((0, start), (wide, stop - start))
                if dim == 1:
                    corner, size = ((start, 0), (stop - start, high))
                alone = len(set(ranks)) == 1
                colour = tint(ranks[0]) if alone else "#dddddd"
                axes.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor="black"))
                said = str(ranks[0]) if alone else "all" if len(set(ranks)) == RANKS else "some"
                middle = (corner[0] + size[0] / 2, corner[1] + size[1] / 2)
                axes.text(*middle, said, ha="center", va="center", fontsize=9)
            axes.set_xlim(-1, max(wide, 26) + 1)
            axes.set_ylim(max(high, 26) + 1, -1)
            axes.set_aspect("equal")
            axes.set_axis_off()
            axes.set_title(f"{name}\n{' × '.join(map(str, shape))}", fontsize=9, loc="left")
    above, below = STAGES.values()
    title = f"{above} above, {below} below: the rank that has read each part"
    figure.suptitle(title, x=0.01, ha="left")
    handles = [Patch(facecolor=tint(rank), label=f"rank {rank}") for rank in range(RANKS)]
    figure.legend(handles=handles, loc="outside lower left", ncols=RANKS, frameon=False)
    return figure
