# wrong: len() is of the data set, not of the shard
# hint: len
# claim: all ranks take ceil(n / W) samples, and len() says so
from collections.abc import Iterator

import torch


class ShardSampler:
    def __init__(self, length: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=generator).tolist()
        total = -(-self.length // self.world_size) * self.world_size
        for position in range(self.rank, total, self.world_size):
            yield order[position % self.length]
