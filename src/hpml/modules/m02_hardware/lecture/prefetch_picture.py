"""Reading and computing on one time axis, a panel for each way to put them together."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from hpml.modules.m02_hardware.lecture.prefetching import COMPUTE, READ, Span
from hpml.trace.layout import PALETTE

ROWS = {READ: (0, PALETTE[1]), COMPUTE: (1, PALETTE[0])}


def prefetch_picture(panels: Mapping[str, Sequence[Span]], *, title: str = "") -> Figure:
    """A bar for each batch read and each batch computed on, with the batch's number; in ms."""
    figure = Figure(figsize=(9, 0.8 + 1.1 * len(panels)), layout="constrained")
    places = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, spans) in zip(places, panels.items(), strict=True):
        for span in spans:
            row, colour = ROWS[span.what]
            axes.barh(
                row,
                1e3 * (span.end - span.begin),
                left=1e3 * span.begin,
                height=0.8,
                color=colour,
                edgecolor="black",
                linewidth=0.5,
            )
            middle = 1e3 * (span.begin + span.end) / 2
            axes.text(middle, row, str(span.batch), ha="center", va="center", fontsize=8)
        axes.set_yticks([0, 1], list(ROWS))
        axes.set_ylim(1.6, -0.6)
        axes.set_title(name, fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    places[-1].set_xlabel("ms")
    if title:
        figure.suptitle(title, fontsize=11)
    return figure
