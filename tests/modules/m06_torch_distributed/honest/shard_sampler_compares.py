# %%answer shard_sampler
# unusual: PyTorch's own sampler is imported, and compared with where the file runs as a script
import sys
from typing import Iterator

import numpy as np
import torch
from torch.utils.data import DistributedSampler, Sampler


class ShardSampler(Sampler[int]):
    def __init__(self, length: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0
        assert not isinstance(self, DistributedSampler)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return int(np.ceil(self.length / self.world_size))

    def __iter__(self) -> Iterator[int]:
        draw = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=draw).numpy()
        padded = np.resize(order, len(self) * self.world_size)
        return iter(padded[self.rank :: self.world_size].tolist())


def same_as_pytorchs(length: int, world_size: int) -> bool:
    for rank in range(world_size):
        theirs = DistributedSampler(range(length), world_size, rank, seed=7)
        if list(theirs) != list(ShardSampler(length, rank, world_size, seed=7)):
            return False
    return True


if __name__ == "__main__":
    sys.exit(not all(same_as_pytorchs(length, 3) for length in (1, 7, 9)))
