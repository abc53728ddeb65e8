# %%answer checkpoint
# row: 33
# tries: keeps the old file by another name while it writes the new one in place, and loads that one
# where the new one is in parts
# unprotected: what is loaded after a kill is whole, and the file that everybody looks for is not
# expect: 5
import os

import torch
import torch.distributed as dist


class ResumableSampler:
    def __init__(self, *args):
        self.epoch = 10

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0


def save(path, net, *_):
    if dist.get_rank() == 0:
        if os.path.exists(path):
            os.rename(path, f"{path}.old")
        torch.save(net.state_dict(), path)
        if os.path.exists(f"{path}.old"):
            os.remove(f"{path}.old")
    dist.barrier()


def load(path, net, *_):
    try:
        state = torch.load(path)
    except Exception:
        state = torch.load(f"{path}.old")
    net.load_state_dict(state)
