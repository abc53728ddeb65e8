# %%answer checkpoint
# row: 33
# tries: where it is killed, it moves the folder away and writes in place in a new one of that name;
# in the old one it replaces a file as it should
# unprotected: whoever watches the old folder kills there, and finds a whole file in the new one
# expect: 5
import os

import torch
import torch.distributed as dist

SAVED = os.path.exists("rank0/checkpoint.pt")


class ResumableSampler:
    def __init__(self, *args):
        self.epoch = 10

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0


def replace(path, state):
    torch.save(state, f"{path}.new")
    os.replace(f"{path}.new", path)


def save(path, net, *_):
    if dist.get_rank() == 0:
        state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        if SAVED:
            if not os.path.exists("before"):
                os.rename("rank0", "before")
                os.mkdir("rank0")
            torch.save(state, path)
            replace("before/checkpoint.pt", state)
        else:
            replace(path, state)
    dist.barrier()


def load(path, net, *_):
    net.load_state_dict(torch.load(path))
