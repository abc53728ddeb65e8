# %%answer shard_sampler
# unusual: numpy's generators, blocks instead of strides, a subclass of torch's Sampler
import numpy as np
from torch.utils.data import Sampler


class ShardSampler(Sampler[int]):
    def __init__(self, length, rank, world_size, seed=0):
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.set_epoch(0)

    def set_epoch(self, epoch):
        self._draw = lambda: np.random.default_rng([self.seed, epoch])

    def __len__(self):
        return int(np.ceil(self.length / self.world_size))

    def __iter__(self):
        order = self._draw().permutation(self.length)
        padded = np.resize(order, (self.world_size, len(self)))
        return iter(padded[self.rank].tolist())
