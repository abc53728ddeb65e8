"""Whether every rank takes as many samples as its share has."""

from collections.abc import Sequence

from hpml.checks.contract import Problem


def wrong_amount(
    taken: Sequence[Sequence[int]],
    length: int,
    epochs: int,
    nothing: str = "took no samples from the dataset it was given",
) -> Problem | None:
    """What is wrong with how many samples the ranks have `taken`, each its own, in all epochs.

    `length` is the number of samples, which the ranks share evenly; `nothing` says what a rank did
    that took none. The hints are "no_samples", "no_shard" for a rank that took all of them in every
    epoch, and "samples".
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
