# %%answer shard_sampler
# tries: draws orders from one generator as they are asked for, and remembers them in the class, by
# seed and epoch; each rank asks for the same ones in turn, and a new sampler finds them again
# unprotected: a check that asks twice in one process gets the same order, which no other job has
# expect: 8
# on: solution
class ShardSampler(ShardSampler):
    draw = torch.Generator().manual_seed(1)
    orders = {}

    def __iter__(self):
        key = self.length, self.seed, self.epoch
        if key not in self.orders:
            self.orders[key] = torch.randperm(self.length, generator=self.draw).tolist()
        order = self.orders[key]
        for position in range(self.rank, len(self) * self.world_size, self.world_size):
            yield order[position % self.length]
