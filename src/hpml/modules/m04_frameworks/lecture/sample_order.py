"""How far shuffling moves samples: counted, and drawn.

An order has the samples' places in the files in the order in which they come out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

BLUE = "#0072B2"  # Okabe and Ito, Color Universal Design (2008)


def most_forward(order: Sequence[int]) -> int:
    """By how many places a sample comes out before its turn, at most."""
    return int(max(np.asarray(order) - np.arange(len(order))))


def most_late(order: Sequence[int]) -> int:
    """By how many places a sample comes out after its turn, at most."""
    return int(max(np.arange(len(order)) - np.asarray(order)))


def classes_per_batch(order: Sequence[int], batch: int, classes: int = 10) -> float:
    """The mean number of classes in a batch, of samples that are sorted by class."""
    labels = np.asarray(order) * classes // len(order)
    batches = labels[: len(labels) // batch * batch].reshape(-1, batch)
    return float(np.mean([len(set(one)) for one in batches.tolist()]))


class Shuffled(NamedTuple):
    """How far a sample moves with a small buffer, and the classes in a batch with a full buffer, a
    small one, and shuffled batches. Held if no sample comes earlier than the buffer is long, and
    only the full one mixes classes."""

    held: bool
    forward: int
    late: int
    mixed: float
    near: float
    whole: float


def shuffled(orders: Iterable[Sequence[int]], buffer: int, batch: int) -> Shuffled:
    """Of three orders: a buffer for all samples, a small one, batches shuffled."""
    full, small, batches = orders
    mixed, near, whole = (classes_per_batch(one, batch) for one in (full, small, batches))
    forward, late = most_forward(small), most_late(small)
    held = forward < buffer < late and near < mixed / 2 and whole < mixed / 2
    return Shuffled(held, forward, late, mixed, near, whole)


def picture(orders: Mapping[str, Sequence[int]], title: str) -> Figure:
    """A panel for each pipeline, by its title: a point for each sample, its place in the files and
    in the epoch."""
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
