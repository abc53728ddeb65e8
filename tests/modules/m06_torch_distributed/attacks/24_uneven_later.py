# %%answer shard_sampler
# tries: takes its share in epoch 0; later rank 0 takes all but ten for each of the others
# unprotected: shares that are even once are taken for even
# expect: 8
# on: solution
class ShardSampler(ShardSampler):
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
        yield from super().__iter__()
