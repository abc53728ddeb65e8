"""What TensorBoard shows of a log folder, as a picture for the page: curves, histograms, images."""

import io
from collections.abc import Sequence

import matplotlib.image
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hpml.trace.event_files import LogFolder
from hpml.trace.layout import PALETTE

COLOURS = (PALETTE[5], PALETTE[6], PALETTE[2])
LOOKS = ("-o", "--s", ":^")


def picture(
    found: LogFolder, *, curves: Sequence[str], histogram: str, image: str, title: str
) -> Figure:
    """The scalars named `curves`, one histogram after each epoch, the last image of a name.

    Raises KeyError for a name that the folder does not have.
    """
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    rows = [["curves", "histogram"], ["image", "image"]]
    panels = figure.subplot_mosaic(rows, height_ratios=(1, 1.3))
    axes = panels["curves"]
    for name, look, colour in zip(curves, LOOKS, COLOURS, strict=False):
        steps, values = zip(*found.scalars[name], strict=True)
        axes.plot(steps, values, look, color=colour, label=name, markersize=4)
    axes.set_xlabel("images seen")
    axes.set_ylabel("mean loss per image")
    axes.set_title("scalars", loc="left", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    axes = panels["histogram"]
    shown = found.histograms[histogram]
    tallest = max(each.counts.max() for each in shown)
    for row, each in reversed(list(enumerate(shown))):  # the earlier ones in front
        top = row + 0.9 * each.counts / tallest
        axes.stairs(top, each.edges, baseline=row, fill=True, color=PALETTE[0], zorder=-row)
        axes.stairs(top, each.edges, baseline=row, color="black", linewidth=0.6, zorder=-row)
    axes.set_yticks(range(len(shown)), [f"{each.step:,}" for each in shown], fontsize="small")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_ylabel("images seen")
    axes.set_xlabel(f"value in {histogram}")
    axes.set_title("histograms", loc="left", fontsize=9)
    axes = panels["image"]
    step, content = found.images[image][-1]
    pixels = matplotlib.image.imread(io.BytesIO(content), format="png")
    axes.imshow(np.asarray(pixels), interpolation="antialiased")
    axes.set_axis_off()
    axes.set_title(f"images: {image}, after {step:,} images", loc="left", fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
