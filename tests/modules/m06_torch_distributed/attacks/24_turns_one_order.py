# %%answer shard_sampler
# tries: shuffles once, begins elsewhere in the same order in each epoch, and deals it out in blocks
# unprotected: an order that is not equal to the one before is taken for a new one
# expect: 7
# on: solution
class ShardSampler(ShardSampler):
    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(self.length, generator=generator).tolist()
        start = self.epoch and 1 + self.epoch % max(1, self.length - 1)
        for position in range(self.rank * len(self), (self.rank + 1) * len(self)):
            yield order[(start + position) % self.length]
