"""Are crops and mirrored images drawn as they should be? Counts against what chance allows.

Each test is a count of independent draws, each with the same probability: its law is a binomial.
A count is improbable if one so far out, on its side, has a probability below 1e-12. An answer is
put to fewer than 100 such tests, so that a right one fails by chance with less than 1e-10.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from hpml.checks.contract import Problem
from hpml.modules.m03_profiling.checks._found_crops import PAD, PLACES, Crops

NEVER = 1e-12
ALIKE = 20  # places that two random orders have in common: 20 or more with 1 / 20! < 1e-18


def improbable(count: int, number: int, probability: float) -> int:
    """-1 where so few of `number` draws are improbable, 1 where so many are, else 0."""

    def chance(hits: int) -> float:
        ways = math.lgamma(number + 1) - math.lgamma(hits + 1) - math.lgamma(number - hits + 1)
        odds = hits * math.log(probability) + (number - hits) * math.log1p(-probability)
        return math.exp(ways + odds)

    if math.fsum(map(chance, range(count + 1))) < NEVER:
        return -1
    return 1 if math.fsum(map(chance, range(count, number + 1))) < NEVER else 0


def joined(epochs: Sequence[Crops], field: str) -> np.ndarray:
    return np.concatenate([getattr(epoch, field) for epoch in epochs])


def neighbours(epochs: Sequence[Crops], field: str) -> np.ndarray:
    """Whether an image has the same value as the one before it in its batch."""
    found = []
    for epoch in epochs:
        values, start = getattr(epoch, field), 0
        for size in epoch.sizes:
            batch = values[start : start + size]
            found.append(batch[1:] == batch[:-1])
            start += size
    return np.concatenate(found)


def of_images(epoch: Crops, field: str) -> np.ndarray:
    """The values in the order of the file's images."""
    return getattr(epoch, field)[np.argsort(epoch.image)]


def between(
    pairs: Sequence[tuple[Crops, Crops]], field: str, order: Callable[[Crops, str], np.ndarray]
) -> np.ndarray:
    """Whether an image, or a place, has in one epoch of a pair the value that it has in the other;
    where their numbers differ, only those that both have."""
    found = []
    for one, other in pairs:
        first, second = order(one, field), order(other, field)
        shared = min(len(first), len(second))
        found.append(first[:shared] == second[:shared])
    return np.concatenate(found)


def by_place(epoch: Crops, field: str) -> np.ndarray:
    return getattr(epoch, field)


def fresh(rounds: Sequence[Sequence[Crops]]) -> Problem | None:
    """What is wrong with how crops and mirrored images are drawn, if anything is.

    By round and epoch; all images were found.
    """
    epochs = [epoch for one in rounds for epoch in one]
    top, left, mirrored = (joined(epochs, field) for field in ("top", "left", "mirrored"))
    number, drawn = len(top), "images were loaded"
    if np.all(top == PAD) and np.all(left == PAD):
        return Problem(f"{number} {drawn}, and none was cropped at another place", "dropped")
    if not mirrored.any():
        return Problem(f"{number} {drawn}, and none was mirrored", "dropped")
    if mirrored.all():
        return Problem(f"{number} {drawn}, and all were mirrored", "coin")
    # What is nearly always the same has that for its cause; what is so too often may have others
    return (
        repeated(rounds, nearly_always)
        or uneven(top, left, mirrored)
        or repeated(rounds, lambda *count: improbable(*count) != 0)
    )


def nearly_always(count: int, number: int, chance: float) -> bool:
    return count > 0.9 * number


def repeated(
    rounds: Sequence[Sequence[Crops]], too_often: Callable[[int, int, float], bool]
) -> Problem | None:
    """Crops or mirrored images that are not drawn for each image and each epoch anew."""
    epochs = [epoch for one in rounds for epoch in one]
    pairs = [(one[0], one[1]) for one in rounds]
    ways: tuple[tuple[Callable[[str], np.ndarray], str, str, str], ...] = (
        (
            lambda field: neighbours(epochs, field),
            "images are",
            "as the one before them in their batch",
            "whole_batch",
        ),
        (
            lambda field: between(pairs, field, of_images),
            "images are",
            "in the second epoch as in the first",
            "kept",
        ),
        (
            lambda field: between(pairs, field, by_place),
            "places of the epoch's order have images",
            "in the second epoch as in the first",
            "kept",
        ),
    )
    for seen, whose, when, hint in ways:
        for what, fields, chance in (
            ("cropped at the same place", ("top", "left"), 1 / PLACES**2),
            ("mirrored alike", ("mirrored",), 1 / 2),
        ):
            same = np.all([seen(field) for field in fields], axis=0)
            if too_often(int(same.sum()), len(same), chance):
                message = f"{same.sum()} of {len(same)} {whose} {what} {when}"
                return Problem(message, hint, f"{chance * len(same):.0f} on average")
    return None


def uneven(top: np.ndarray, left: np.ndarray, mirrored: np.ndarray) -> Problem | None:
    number = len(top)
    for what, values in (("row", top), ("column", left)):
        counts = np.bincount(values, minlength=PLACES)
        for place, count in enumerate(counts):
            if side := improbable(int(count), number, 1 / PLACES):
                some = str(count) if count else "none"
                at_edge = side < 0 and count == 0 and place in (0, PLACES - 1)
                return Problem(
                    f"{some} of {number} crops begin at {what} {place} of the padded image",
                    "edge" if at_edge else "uniform",
                    f"{number / PLACES:.0f} on average",
                )
        middle = int((abs(values - PAD) <= 1).sum())  # a bell has many there, but few too many each
        if improbable(middle, number, 3 / PLACES):
            return Problem(
                f"{middle} of {number} crops begin at a {what} from {PAD - 1} to {PAD + 1}",
                "uniform",
                f"{3 * number / PLACES:.0f} on average",
            )
    if improbable(int(mirrored.sum()), number, 1 / 2):
        return Problem(f"{mirrored.sum()} of {number} images are mirrored", "coin", "half of them")
    for other in (left, 2 * PAD - left):
        same = int((top == other).sum())
        if improbable(same, number, 1 / PLACES):
            message = f"in {same} of {number} crops the column follows from the row"
            return Problem(message, "one_draw")
    for way in (0, 1):
        rows = top[mirrored == way]
        share = int((rows > PAD).sum())
        if improbable(share, len(rows), PAD / PLACES):
            return Problem(
                "where an image is cropped and whether it is mirrored go together", "one_draw"
            )
    return None


def shuffled(rounds: Sequence[Sequence[Crops]]) -> Problem | None:
    """What is wrong with the epochs' orders, if anything is; each epoch has all images once."""
    for one in rounds:
        for number, epoch in enumerate(one, 1):
            order, places = epoch.image, np.arange(len(epoch.image))
            steps = int((np.diff(order) == 1).sum())
            same = int((order == places).sum())
            if same == len(order):
                return Problem(f"epoch {number} has the images in the file's order", "order")
            if same >= ALIKE or steps >= ALIKE:
                some = f"{steps} images come right after the one before them in the file"
                if steps < ALIKE:
                    some = f"{same} images are at their own place of the file"
                return Problem(f"in epoch {number}, {some}", "order")
            # The mean of |order - place| is a third of the number, and this is 8 deviations off
            if np.abs(order - places).mean() < len(order) / 6:
                message = f"in epoch {number}, images stay close to their places in the file"
                return Problem(message, "order")
        first, second = one[0], one[1]
        if int((first.image == second.image).sum()) >= ALIKE:
            return Problem("the second epoch has the images in the first one's order", "same_order")
        if batches(first) & batches(second):
            message = "a batch of the second epoch has the same images as one of the first"
            return Problem(message, "same_order")
        follows = set(zip(first.image[:-1], first.image[1:], strict=True))
        kept = sum(
            pair in follows for pair in zip(second.image[:-1], second.image[1:], strict=True)
        )
        if kept >= ALIKE:
            message = f"{kept} images of the second epoch follow the same one as in the first"
            return Problem(message, "same_order")
    return None


def batches(epoch: Crops) -> set[frozenset[int]]:
    """The images of each full batch."""
    found, start = set(), 0
    for size in epoch.sizes:
        if size == max(epoch.sizes):
            found.add(frozenset(epoch.image[start : start + size].tolist()))
        start += size
    return found
