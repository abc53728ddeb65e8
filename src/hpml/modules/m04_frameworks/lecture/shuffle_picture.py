"""Where each sample of the files comes out in an epoch."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

BLUE = "#0072B2"  # Okabe and Ito, Color Universal Design (2008)


def shuffle_picture(orders: Mapping[str, Sequence[int]], title: str) -> Figure:
    """A panel for each pipeline: a point for each sample, its place in the files and in the epoch.

    `orders` has, by the panel's title, the samples' places in the files in the order in which they
    come out.
    """
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    panels = figure.subplots(1, len(orders), sharex=True, sharey=True, squeeze=False)[0]
    for panel, (name, order) in zip(panels, orders.items(), strict=True):
        panel.plot(np.arange(len(order)), order, ".", markersize=2, color=BLUE)
        panel.plot([0, len(order)], [0, len(order)], "-", linewidth=0.8, color="black")
        panel.set(xlabel="place in the epoch", aspect="equal")
        panel.set_title(name, fontsize=9, family="monospace")
    panels[0].set_ylabel("place in the files")
    figure.suptitle(title, fontsize=11)
    return figure
