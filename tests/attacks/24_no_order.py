# %%answer shard_sampler
# row: 24
# tries: a sampler of nothing, and one rank's share of it
# unprotected: claims that hold for each element hold for none
# expect: 0
class ShardSampler:
    def __init__(self, *args):
        pass

    def set_epoch(self, epoch):
        pass

    def __len__(self):
        return 0

    def __iter__(self):
        return iter(())
