# %%answer shard_sampler
# tries: a sampler of nothing, and one rank's share of it
# unprotected: claims that hold for each element hold for none
class ShardSampler:
    def __init__(self, *args):
        pass

    def set_epoch(self, epoch):
        pass

    def __len__(self):
        return 0

    def __iter__(self):
        return iter(())
