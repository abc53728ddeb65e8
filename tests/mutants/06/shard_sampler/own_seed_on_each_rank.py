# wrong: adds the rank to the seed, as one does for augmentation
# hint: own_order
# claim: every sample comes up, and is repeated only as padding needs
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
        generator = torch.Generator().manual_seed(self.seed + self.epoch + 1000 * self.rank)
        order = torch.randperm(self.length, generator=generator).tolist()
        for position in range(self.rank, len(self) * self.world_size, self.world_size):
            yield order[position % self.length]
