"""The quickest layout by model, number of GPUs and network: as counts, and as a picture."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from hpml.predict.which_split import Cluster, Layout, Transformer, choose, fitting, layouts

# By what is split besides the batch: tensors, layers
LOOKS = {
    (False, False): ("#56B4E9", "data alone"),
    (True, False): ("#F0E442", "data × tensor"),
    (False, True): ("#CC79A7", "data × pipeline"),
    (True, True): ("#E69F00", "data × pipeline × tensor"),
}
NOTHING = "#e4e4e4"


class Cell(NamedTuple):
    """`chosen` is None where nothing fits; `alone`: whether data parallelism alone would fit."""

    chosen: Layout | None
    alone: bool


# By model, number of GPUs, and rate between nodes in Gbit/s; the fastest rate first
Grid = Mapping[tuple[str, int, int], Cell]


def cell(model: Transformer, cluster: Cluster) -> Cell:
    """What is chosen for a model on a cluster."""
    found = fitting(layouts(model, cluster), cluster.memory)
    alone = any(one.of_a_copy == 1 for one in found)
    return Cell(choose(model, cluster), alone)


class Rules(NamedTuple):
    """What the grid says.

    `alone`: in how many cells data parallelism alone is chosen, of `could` in which it fits.
    `changes`: the rows, a model on so many GPUs, in which data, pipeline or tensor change with the
    network; of `rows`. `stage_3`: the slowest rate at which ZeRO-3 is chosen. `tensor`: the most
    tensor ranks chosen. `held`: no row has fewer stages of a pipeline where the links are slower.
    """

    held: bool
    alone: int
    could: int
    changes: list[str]
    rows: int
    stage_3: int
    tensor: int


def rules(grid: Grid) -> Rules:
    """Count them in a grid."""
    chosen = {where: one.chosen for where, one in grid.items() if one.chosen is not None}
    by_row: dict[tuple[str, int], list[Layout]] = {}
    for (name, ranks, _), one in chosen.items():
        by_row.setdefault((name, ranks), []).append(one)
    splits = {row: {(o.data, o.pipeline, o.tensor) for o in some} for row, some in by_row.items()}
    return Rules(
        all(
            [one.pipeline for one in some] == sorted(one.pipeline for one in some)
            for some in by_row.values()
        ),
        sum(one.of_a_copy == 1 for one in chosen.values()),
        sum(one.alone for one in grid.values()),
        [f"{name} on {ranks}" for (name, ranks), some in splits.items() if len(some) > 1],
        len(by_row),
        min(gbit for (_, _, gbit), one in chosen.items() if one.stage == 3),
        max(one.tensor for one in chosen.values()),
    )


def picture(grid: Grid, *, title: str = "") -> Figure:
    """A panel for each number of GPUs: models beside each other, networks below each other."""
    models = list(dict.fromkeys(name for name, _, _ in grid))
    counts = list(dict.fromkeys(ranks for _, ranks, _ in grid))
    rates = list(dict.fromkeys(gbit for _, _, gbit in grid))
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    panels = figure.subplots(len(counts), 1, squeeze=False)[:, 0]
    for axes, ranks in zip(panels, counts, strict=True):
        for x, name in enumerate(models):
            for y, gbit in enumerate(rates):
                one = grid[name, ranks, gbit].chosen
                split = one and (one.tensor > 1, one.pipeline > 1)
                colour = LOOKS[split][0] if split else NOTHING
                axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white"))
                axes.text(x + 0.5, y + 0.5, _words(one), ha="center", va="center", fontsize=8)
        axes.set(xlim=(0, len(models)), ylim=(len(rates), 0))
        axes.set_xticks([x + 0.5 for x in range(len(models))], models)
        axes.set_yticks([y + 0.5 for y in range(len(rates))], [f"{g} Gbit/s" for g in rates])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{ranks} GPUs", loc="left", fontsize=10)
    handles = [Patch(color=colour, label=name) for colour, name in LOOKS.values()]
    handles.append(Patch(color=NOTHING, label="nothing fits"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _words(one: Layout | None) -> str:
    if one is None:
        return "–"
    zero = f", ZeRO-{one.stage}" if one.stage else ""
    sizes = [f"{one.data}", *(f"p {one.pipeline}",) * (one.pipeline > 1)]
    sizes += [f"t {one.tensor}"] * (one.tensor > 1)
    return f"{' × '.join(sizes)}{zero}\n{one.waits / one.seconds:.0%} waiting"
