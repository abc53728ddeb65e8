"""What a loader of fix_the_loader brought back, by round and epoch: epochs of images, or why not.

All claims are about the same rounds, which are read once.
"""

from dataclasses import dataclass
from typing import Any

import torch

from hpml.checks.compare import described, named
from hpml.checks.contract import Problem, Run
from hpml.modules.m03_profiling.checks._found_crops import Crops, File, is_batch, read_epoch
from hpml.modules.m03_profiling.checks._loaded_epochs import EPOCHS, LOADED, ROUNDS
from hpml.ranks.evidence import Evidence

SEEN_AS = {
    "twice": "are normalised twice",
    "by_256": "are divided by 256 and not by 255",
    "unscaled": "are normalised without being divided by 255",
    "unnormalised": "are divided by 255 and not normalised",
    "raw": "are gray levels from 0 to 255",
    "wrapped": "have wrapped around: they are what differences become in uint8",
}


@dataclass(frozen=True)
class Found:
    """What the answer loaded, by round and epoch; and again with an equal generator."""

    rounds: list[list[Crops]]
    again: bool  # all of its batches are equal to the last round's first epoch
    sizes: Problem | None  # batches of other sizes than asked for


_last: list[tuple[Evidence, Found | Problem]] = []  # all claims read the same evidence


def found(run: Run) -> Found | Problem:
    """What was loaded; a Problem where that is not epochs of images."""
    evidence = run.stages[LOADED]
    if not _last or _last[0][0] is not evidence:
        _last[:] = [(evidence, _read(run))]
    return _last[0][1]


def _read(run: Run) -> Found | Problem:
    value = run.stages[LOADED].values[0]
    rounds = value.get("rounds") if isinstance(value, dict) else None
    if not (
        isinstance(rounds, list)
        and len(rounds) == ROUNDS
        and all(isinstance(one, list) and len(one) == EPOCHS for one in rounds)
        and all(isinstance(epoch, list) for one in rounds for epoch in one)
        and isinstance(value.get("again"), list)
    ):
        return Problem("the answer brought back no epochs", "start")
    every = [(epoch, sizes) for one, sizes in zip(rounds, run.expected, strict=True)
             for epoch in one]  # fmt: skip
    every.append((value["again"], run.expected[-1]))
    malformed = (malformed_batch(epoch) for epoch, _ in every)
    if problem := next(filter(None, malformed), None):
        return problem
    read = []
    for content, epochs in zip(run.inputs[LOADED][0]["files"], rounds, strict=True):
        file = File(content)
        read.append([read_epoch(file, epoch) for epoch in epochs])
    again, first = value["again"], rounds[-1][0]
    same = len(again) == len(first) and all(
        torch.equal(a, b)
        for one in zip(again, first, strict=True)
        for a, b in zip(*one, strict=True)
    )
    wrong = (wrong_sizes(epoch, sizes) for epoch, sizes in every)
    return Found(read, same, next(filter(None, wrong), None))


def malformed_batch(epoch: list[Any]) -> Problem | None:
    if not epoch:
        return Problem("an epoch has no batch", "last_batch")
    for number, batch in enumerate(epoch, 1):
        if is_batch(batch):
            continue
        if not isinstance(batch, list) or len(batch) != 2:
            kind = batch[0] if isinstance(batch, list) and batch else type(batch).__name__
            return Problem(f"batch {number} is a {kind}", "types", "a pair: images and labels")
        seen = [
            f"{named(item.dtype)} of shape {tuple(item.shape)}"
            if isinstance(item, torch.Tensor)
            else item
            if isinstance(item, str)
            else described(item)
            for item in batch
        ]
        message = f"batch {number} has images that are {seen[0]}, and labels that are {seen[1]}"
        return Problem(message, "types", "float32 (B, 3, 32, 32) and int64 (B,)")
    return None


def wrong_sizes(epoch: list[Any], sizes: list[int]) -> Problem | None:
    got = [len(labels) for _, labels in epoch]
    if got == sizes:
        return None
    message = f"an epoch of {sum(sizes)} images has batches of {got}"[:200]
    if sum(got) < sum(sizes) and got == sizes[: len(got)]:
        return Problem(message, "last_batch", "a last batch with those that are left")
    rest = f"batches of {sizes[0]} images, and the last with the rest"
    return Problem(message, "batch_size", rest)


def images_found(what: Found) -> Problem | None:
    """The images' values: each is one of the crops that the text allows."""
    for epoch in (epoch for one in what.rounds for epoch in one):
        number = len(epoch.image)
        missing = int((epoch.image < 0).sum())
        if missing:
            message = f"{missing} of {number} loaded images are not crops of an image in the file"
            return Problem(message, "no_crop")
        if epoch.misread:
            return Problem(f"the values of the images {SEEN_AS[epoch.misread]}", "normalise")
        wrong = int((~epoch.exact).sum())
        if wrong and not epoch.exact.any() and epoch.red.all():
            message = (
                f"in {wrong} of {number} loaded images red is right, and another colour is not"
            )
            return Problem(message, "colours")
        if wrong:
            inner = "right in the middle, and has other values elsewhere"
            message = f"{wrong} of {number} loaded images are wrong: each is {inner}"
            return Problem(message, "padding")
    return None


def images_lost(what: Found) -> Problem | None:
    """Where images are not found, nothing can be said of how they were drawn."""
    if any((epoch.image < 0).any() for one in what.rounds for epoch in one):
        return images_found(what)
    return None
