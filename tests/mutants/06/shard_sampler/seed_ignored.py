# wrong: the epoch is the seed
# hint: seed
# claim: seed and epoch alone decide the order
from collections.abc import Iterator

import torch


class ShardSampler:
    def __init__(self, length: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.length // self.world_size)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(self.length, generator=generator).tolist()
        for position in range(self.rank, len(self) * self.world_size, self.world_size):
            yield order[position % self.length]
