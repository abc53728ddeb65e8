"""Whether every rank takes its share of the samples."""

from collections.abc import Sequence

from hpml.checks.contract import Problem


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
