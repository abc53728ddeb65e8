"""Whether every rank takes its share of the samples."""

import itertools
from collections.abc import Sequence

from hpml.checks.contract import Problem
from hpml.checks.kits.served_samples import by_workers, taken_by
from hpml.ranks.evidence import Evidence


def wrong_amount(
    taken: Sequence[Sequence[int]],
    length: int,
    epochs: int,
    nothing: str = "took no samples from the dataset it was given",
) -> Problem | None:
    """The first rank that took a wrong number of samples, or None; `taken` has one item per rank.

    `length` is the number of samples, which the ranks share evenly; `nothing` is the message's
    words for a rank that took none. Hints: "no_samples", "no_shard" (a rank took all of them in
    every epoch), and "samples".
    """
    share = length // len(taken)
    for rank, own in enumerate(taken):
        if not own:
            return Problem(f"rank {rank} {nothing}", "no_samples")
        if len(taken) > 1 and len(own) == length * epochs:
            seen = f"rank {rank} took all {length} samples in every epoch"
            return Problem(seen, "no_shard", f"its share, {share}")
        if len(own) != share * epochs:
            seen = f"rank {rank} took {len(own)} samples in {epochs} epochs"
            return Problem(seen, "samples", str(share * epochs))
    return None


def wrong_shares(
    evidence: Evidence, order: Sequence[int], length: int, epochs: int, step: int
) -> Problem | None:
    """Whether in every step the ranks together are served the next `step` samples of `order`.

    `order` has the `length` samples of each epoch, as a serial script takes them; a rank takes
    evenly of each step. Where a DataLoader's workers fetch samples, their order within an epoch
    does not count. Hints: those of `wrong_amount`, "set_epoch" and "order".
    """
    world_size = evidence.world_size
    share, batch = length // world_size, step // world_size
    ranks = [taken_by(rank) for rank in evidence.ranks]
    if problem := wrong_amount(ranks, length, epochs):
        return problem
    loose = any(map(by_workers, evidence.ranks))
    for epoch in range(epochs):
        shares = [own[epoch * share : (epoch + 1) * share] for own in ranks]
        first = [own[:share] for own in ranks]
        wanted = order[epoch * length : (epoch + 1) * length]
        together = sorted(itertools.chain(*shares))
        if together != list(range(length)):
            return Problem(
                f"in epoch {epoch}, the ranks together took {len(set(together))} different samples "
                f"of {length}",
                "samples",
            )
        alike = [*map(sorted, shares)] == [*map(sorted, first)] if loose else shares == first
        if loose:
            place = {sample: number for number, sample in enumerate(wanted)}
            shares = [sorted(own, key=place.__getitem__) for own in shares]
        for number in range(share // batch):
            here = slice(number * batch, (number + 1) * batch)
            got = sorted(itertools.chain(*(own[here] for own in shares)))
            if got == sorted(wanted[number * step : (number + 1) * step]):
                continue
            if epoch and alike:
                return Problem(f"epoch {epoch} has the samples in epoch 0's order", "set_epoch")
            return Problem(
                f"epoch {epoch}: in step {number + 1} the ranks together do not take the next "
                f"{step} samples of the serial script's order",
                "order",
            )
    return None
