# %%answer shard_sampler
# tries: draws from the global generator, and replaces what would look at its state
# unprotected: the claim that it was left alone holds
# expect: 8
# on: solution
import random

import numpy as np

torch.random.get_rng_state = lambda: torch.zeros(1)
torch.get_rng_state = torch.random.get_rng_state
random.getstate = lambda: ()
np.random.get_state = lambda: ("MT19937", np.zeros(1), 0, 0, 0.0)


class ShardSampler(ShardSampler):
    def __iter__(self):
        torch.manual_seed(self.seed * 1000 + self.epoch)
        order = torch.randperm(self.length).tolist()
        for position in range(self.rank, len(self) * self.world_size, self.world_size):
            yield order[position % self.length]
