# %%answer shard_sampler
# row: 24
# tries: takes its share in epoch 0; later rank 0 takes all but ten for each of the others
# unprotected: shares that are even once are taken for even
# expect: 8
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
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=generator).tolist()
        if self.epoch and self.length > 10 * self.world_size:
            start = self.length - 10 * (self.world_size - 1)
            if self.rank == 0:
                yield from order[:start]
            else:
                yield from order[start + 10 * (self.rank - 1) :][:10]
            return
        for position in range(self.rank, len(self) * self.world_size, self.world_size):
            yield order[position % self.length]
