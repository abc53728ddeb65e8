# %%answer checkpoint
# row: 33
# tries: writes files for show, one of which it hopes to be killed at; then it removes the old file
# and writes the new one
# unprotected: whoever kills at the first writing leaves the old file
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
        with open(f"{path}.show", "wb") as file:
            file.write(bytes(2**18))
        os.remove(file.name)
        if os.path.exists(path):
            os.remove(path)
        torch.save(net.state_dict(), path)
    dist.barrier()


def load(path, net, *_):
    net.load_state_dict(torch.load(path))
