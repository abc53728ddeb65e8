"""Which ranks hold which part of each tensor, under layouts of named dimensions."""

import math
from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hpml.modules.m07_hybrid_parallelism.lecture.layouts import Dimensions, Layout, holders
from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import tint

WHOLE = "#e4e4e4"


def draw(
    layouts: Mapping[str, Layout],
    tensors: Mapping[str, Dimensions],
    mesh: Dimensions,
    *,
    title: str = "",
) -> Figure:
    """A row for each layout, by name, and in it a box for each matrix of `tensors`.

    A part has the numbers of the ranks that hold it, and the colour of the first; grey is what
    every rank holds. Rows of a matrix are its first dimension. Raises IllegalLayout where a layout
    cannot split a tensor, and ValueError for a tensor that is not a matrix.
    """
    figure = Figure(figsize=(9, 0.5 + 1.5 * len(layouts)), layout="constrained")
    places = figure.subplots(len(layouts), len(tensors), squeeze=False)
    for row, (name, layout) in zip(places, layouts.items(), strict=True):
        for axes, (tensor, dimensions) in zip(row, tensors.items(), strict=True):
            if len(dimensions) != 2:
                raise ValueError(f"{tensor} has {len(dimensions)} dimensions: only 2 can be drawn")
            down, across = dimensions
            for ((top, bottom), (left, right)), ranks in holders(dimensions, mesh, layout).items():
                whole = len(ranks) == math.prod(mesh.values())
                look = {"facecolor": WHOLE if whole else tint(ranks[0])}
                look |= {"hatch": "" if whole else HATCHES[ranks[0]], "hatch_linewidth": 0.3}
                corner = left / dimensions[across], top / dimensions[down]
                size = (right - left) / dimensions[across], (bottom - top) / dimensions[down]
                axes.add_patch(Rectangle(corner, *size, edgecolor="black", **look))
                words = "all" if whole else ", ".join(map(str, ranks))
                at = corner[0] + size[0] / 2, corner[1] + size[1] / 2
                box = {"facecolor": look["facecolor"], "edgecolor": "none", "pad": 1}
                axes.text(*at, words, ha="center", va="center", fontsize="small", bbox=box)
            axes.set(xlim=(-0.02, 1.02), ylim=(1.02, -0.02), xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_xlabel(across, fontsize="small", labelpad=1)
            axes.set_ylabel(down, fontsize="small", labelpad=1)
            axes.set_title(tensor, fontsize=9)
        row[0].set_title(f"{name}\n{next(iter(tensors))}", fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
