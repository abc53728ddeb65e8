# %%answer shard_sampler
# row: 39
# tries: draws orders from one generator as they are asked for, and remembers them in the class, by
# seed and epoch; each rank asks for the same ones in turn, and a new sampler finds them again
# unprotected: whoever asks twice in one process gets the same order, which no other job will have
# expect: 8
import torch


class ShardSampler:
    draw = torch.Generator().manual_seed(1)
    orders = {}

    def __init__(self, length, rank, world_size, seed=0):
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return -(-self.length // self.world_size)

    def __iter__(self):
        key = self.length, self.seed, self.epoch
        if key not in self.orders:
            self.orders[key] = torch.randperm(self.length, generator=self.draw).tolist()
        order = self.orders[key]
        for position in range(self.rank, len(self) * self.world_size, self.world_size):
            yield order[position % self.length]
