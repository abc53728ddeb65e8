"""What follows from a tf.data pipeline's counts: sentences for `hpml.publish.conclude`."""

from collections.abc import Mapping, Sequence

import numpy as np

Finding = tuple[bool, str, str]


def frozen(distinct: Mapping[str, int], images: int, epochs: int) -> Finding:
    """From the different images by pipeline: the cache before the augmentation, then after it."""
    (_, before), (_, after) = distinct.items()
    seen = f"{before:,} different ones with the cache before, {after:,} with the cache after"
    return (
        after == images and before > images * (epochs - 1),
        "**Answer.** "
        f"{epochs} epochs of {images:,} images: {before:,} different ones with the cache before "
        f"the augmentation, {after:,} with the cache after it. There each epoch is the first one "
        "again, and no error is raised.",
        f"{epochs} epochs of {images:,} images: {seen}. Draws may repeat, or an epoch was cut "
        "short.",
    )


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


def shuffled(orders: Mapping[str, Sequence[int]], buffer: int, batch: int) -> Finding:
    """From the order by pipeline: a buffer for all, a small one, batches shuffled."""
    full, small, whole = orders.values()
    mixed, near, sorted_ = (classes_per_batch(one, batch) for one in (full, small, whole))
    forward, late = most_forward(small), most_late(small)
    return (
        forward < buffer < late and near < mixed / 2 and sorted_ < mixed / 2,
        "**Answer.** "
        f"With a buffer of {buffer} no sample comes more than {forward} places before its turn, "
        f"though one comes {late} places after it. In files that are sorted by class a batch of "
        f"{batch} then has {near:.1f} of the 10 classes in the mean, {sorted_:.1f} where batches "
        f"are shuffled, and {mixed:.1f} with a buffer for all.",
        f"with a buffer of {buffer} samples came up to {forward} places early and {late} late, and "
        f"batches had {mixed:.1f}, {near:.1f} and {sorted_:.1f} classes: too few samples to see a "
        "difference.",
    )


def mixed_epochs(orders: Mapping[str, Sequence[int]], samples: int) -> Finding:
    """From the order of two epochs by pipeline: shuffled then repeated, then the other way."""
    right, wrong = (len(set(np.asarray(one)[:samples].tolist())) for one in orders.values())
    return (
        right == samples > wrong,
        "**Answer.** "
        f"Repeated first, the first {samples:,} samples are {wrong:,} different ones: "
        f"{samples - wrong:,} have not come yet, and as many have come twice. Shuffled first, all "
        f"{right:,} are different.",
        f"the first {samples:,} samples are {right:,} and {wrong:,} different ones.",
    )


def ahead(made: Mapping[str, int], batch: int) -> Finding:
    """From what was made ahead by pipeline: prefetch last, then first, then none."""
    last, first, none = made.values()
    return (
        last >= batch > max(first, none),
        "**Answer.** "
        f"While the first batch of {batch} is computed on, {last} more images are made with "
        f"`prefetch` at the end, {first} with `prefetch` at the beginning, and {none} without one: "
        "it keeps elements of the stage before it, and only at the end these are batches.",
        f"{last} images were made ahead with `prefetch` at the end, {first} with it at the "
        f"beginning, {none} without: a busy machine did not get to the second batch in time.",
    )


def at_once(seconds: Mapping[str, float], images: int) -> Finding:
    """From the processor seconds of an epoch: image by image, then a batch at a time."""
    single, batched = (1e6 * one / images for one in seconds.values())
    return (
        single > 1.5 * batched,
        f"An image takes {single:.0f} µs of processor time where each is scaled by itself, and "
        f"{batched:.0f} µs in a batch: {single / batched:.1f} times less, for as many pixels. The "
        "rest was the price of starting operators.",
        f"an image takes {single:.0f} µs by itself and {batched:.0f} µs in a batch: here other "
        "work than starting operators takes most of the time.",
    )


def in_order(orders: Mapping[str, Sequence[int]]) -> Finding:
    """From the order of a parallel map's results: deterministic, then not."""
    kept, free = (np.asarray(one) for one in orders.values())
    moved = int((free != np.arange(len(free))).sum())
    return (
        (kept == np.arange(len(kept))).all() and moved > 0,
        "**Answer.** "
        f"Deterministic, all {len(kept)} results come in order, and wait for the slow ones. With "
        f"`deterministic=False` {moved} of {len(free)} come at another place, as they are ready; "
        "after a shuffle that does no harm, but a seed no longer repeats the order.",
        f"{int((kept != np.arange(len(kept))).sum())} results out of order with "
        f"`deterministic=True`, {moved} with False: one at a time, none can overtake.",
    )
