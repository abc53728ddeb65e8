# %%answer shard_sampler
# row: 24
# tries: shuffles once, begins elsewhere in the same order in each epoch, and deals it out in blocks
# unprotected: an order that is not equal to the one before is taken for a new one
# expect: 7
import torch


class ShardSampler:
    def __init__(self, length, rank, world_size, seed=0):
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return -(-self.length // self.world_size)

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(self.length, generator=generator).tolist()
        start = self.epoch and 1 + self.epoch % max(1, self.length - 1)
        for position in range(self.rank * len(self), (self.rank + 1) * len(self)):
            yield order[(start + position) % self.length]
