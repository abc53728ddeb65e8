"""How well epochs are shuffled, from the orders alone: whatever order the files were read in."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpml.modules.m04_frameworks.checks._served_augmentations import SHARDS


def order_of(batches: Sequence[Sequence[tuple[int, Any, Any]]]) -> list[int]:
    """The samples' numbers, in the order in which they came."""
    return [sample for batch in batches for sample, _, _ in batch]


def places(order: Sequence[int]) -> np.ndarray:
    """The place of each sample in the order, int64 [samples]."""
    return np.argsort(np.array(order))


def resemblance(orders: Sequence[Sequence[int]]) -> float:
    """The mean correlation of the samples' places in two orders (Spearman's), over all pairs.

    Around 0 where each order is drawn from all orders. A shuffle buffer that is too small leaves
    each sample near the place where it was read, and so the orders alike.
    """
    ranks = np.corrcoef(np.stack([places(order) for order in orders]))
    return float(ranks[np.triu_indices(len(orders), 1)].mean())


def batches_alike(epochs: Sequence[Sequence[Sequence[tuple[int, Any, Any]]]]) -> float:
    """Of the pairs of samples that share a batch in one epoch, the share that does in another.

    The mean over all pairs of epochs. 1 where batches are shuffled and not samples.
    """
    pairs = [
        {
            frozenset(two)
            for batch in batches
            for two in itertools.combinations([sample for sample, _, _ in batch], 2)
        }
        for batches in epochs
    ]
    shares = [
        len(one & other) / max(len(one), 1) for one, other in itertools.combinations(pairs, 2)
    ]
    return float(np.mean(shares))


def file_distance(orders: Sequence[Sequence[int]]) -> float:
    """How far apart two neighbours of a file come out, in the mean.

    As a ratio to (samples + 1) / 3, the mean distance where each order is as likely as any other.
    Sample i is in file i modulo SHARDS.
    """
    place = np.stack([places(order) for order in orders])
    distance = np.abs(place[:, SHARDS:] - place[:, :-SHARDS]).mean()
    return float(distance / ((place.shape[1] + 1) / 3))
