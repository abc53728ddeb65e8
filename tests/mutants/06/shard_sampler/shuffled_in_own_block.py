# wrong: each rank shuffles only its own part, the same in every epoch
# hint: own_block
# claim: each epoch has a new order, and brings each rank other samples
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
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        if self.length:
            own = [(self.rank + i * self.world_size) % self.length for i in range(len(self))]
            yield from (own[i] for i in torch.randperm(len(own), generator=generator).tolist())
