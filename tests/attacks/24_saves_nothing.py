# %%answer checkpoint
# row: 24
# tries: save and load do nothing, and the sampler has nothing to give
# unprotected: claims on what was taken, and what was left, hold for nothing
# expect: 0
class ResumableSampler:
    def __init__(self, *args):
        self.epoch = 10

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0


def save(path, *args):
    pass


def load(path, *args):
    pass
