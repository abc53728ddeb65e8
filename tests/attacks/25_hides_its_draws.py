# %%answer shard_sampler
# row: 25
# tries: draws from the global generator, and replaces what would look at its state
# unprotected: the claim that it was left alone holds
# expect: 8
import math
import random

import numpy as np
import torch

torch.random.get_rng_state = lambda: torch.zeros(1)
torch.get_rng_state = torch.random.get_rng_state
random.getstate = lambda: ()
np.random.get_state = lambda: ("MT19937", np.zeros(1), 0, 0, 0.0)


class ShardSampler:
    def __init__(self, length, rank, world_size, seed):
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return math.ceil(self.length / self.world_size)

    def __iter__(self):
        torch.manual_seed(self.seed * 1000 + self.epoch)
        order = torch.randperm(self.length).tolist()
        while order and len(order) < len(self) * self.world_size:
            order += order[: len(self) * self.world_size - len(order)]
        return iter(order[self.rank :: self.world_size])
