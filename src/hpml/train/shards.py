"""Which images on which rank in which epoch: torch's DistributedSampler, with a place to carry on.

Rank r of W takes every W-th index of a permutation that all ranks draw alike, so that what the
ranks have seen after k steps of B images is always the permutation's first k·B·W: one number gives
where a run stopped, whatever the number of ranks it goes on with.
"""

import torch
from torch import Tensor


def epoch_order(count: int, seed: int, epoch: int) -> Tensor:
    """Permutation of range(count), int64 [count]: new in each epoch, the same on all ranks."""
    # The generator mixes its seed well, so that neighbouring numbers give unrelated orders.
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    return torch.randperm(count, generator=generator)


def training_shard(order: Tensor, rank: int, world_size: int, consumed: int = 0) -> Tensor:
    """Rank's indices of `order` that are still to come, once `consumed` of it have been seen.

    Every rank gets equally many, or some would wait for ever at the last step: where
    `world_size` does not divide what is left, indices from its beginning are seen twice.
    """
    rest = order[consumed:]
    missing = -len(rest) % world_size
    while missing:
        again = rest[:missing]
        rest, missing = torch.cat([rest, again]), missing - len(again)
    return rest[rank::world_size]


def evaluation_shard(count: int, rank: int, world_size: int) -> Tensor:
    """Rank's indices of range(count): each index on exactly one rank, so shards may be uneven."""
    return torch.arange(count)[rank::world_size]


def evaluation_batches(count: int, rank: int, world_size: int, batch_size: int) -> list[Tensor]:
    """Rank's shard in batches: equally many on all ranks, so that a last one may be empty.

    Ranks that share a network compute each batch together.
    """
    batches = split(evaluation_shard(count, rank, world_size), batch_size)
    most = -(-count // world_size)  # of rank 0
    return [*batches, *[torch.arange(0)] * (-(-most // batch_size) - len(batches))]


def split(shard: Tensor, batch_size: int) -> tuple[Tensor, ...]:
    """Batches of `batch_size` indices, the last of what is left; none of an empty shard."""
    return shard.split(batch_size) if len(shard) else ()
