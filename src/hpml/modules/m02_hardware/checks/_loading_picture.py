"""A loop's reads and computations as a picture: what is done at the same time, what in turns."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from hpml.trace.layout import PALETTE

Span = tuple[float, float]  # begin and end, seconds
LOOKS = {
    "reading": {"facecolor": PALETTE[1], "hatch": "////", "edgecolor": "white"},
    "computing": {"facecolor": PALETTE[5], "edgecolor": "white"},
}


def loading_picture(reads: Sequence[Span], computations: Sequence[Span], *, title: str) -> Figure:
    """A row for the reads and one for the computations of one loop, with each batch's number.

    Times are seconds; time 0 is the first read. Raises ValueError without a read.
    """
    if not reads:
        raise ValueError("nothing was read, so there is nothing to draw")
    start = reads[0][0]
    figure = Figure(figsize=(9.0, 1.9), layout="constrained")
    axes = figure.subplots()
    for row, (name, spans) in enumerate(zip(LOOKS, (reads, computations), strict=True)):
        for number, (begin, end) in enumerate(spans, 1):
            left, width = 1e3 * (begin - start), 1e3 * (end - begin)
            axes.broken_barh([(left, width)], (row - 0.4, 0.8), linewidth=0.8, **LOOKS[name])
            label = axes.text(
                left + width / 2, row, str(number), ha="center", va="center", fontsize=8
            )
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.set_yticks(range(len(LOOKS)), list(LOOKS), fontsize="small")
    axes.set_ylim(1.5, -0.5)
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("time (ms); in a box the number of the batch")
    axes.set_title(title, loc="left", fontsize=11)
    return figure
