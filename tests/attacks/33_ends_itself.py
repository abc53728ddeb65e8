# %%answer checkpoint
# row: 33
# tries: kills itself when it is to save for the third time, before it touches the file, so that the
# old one is left as after a kill while writing; it writes in place through a new file each time
# unprotected: the claim that a kill leaves the old file holds
# expect: 5
import os
import signal

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


def save(path, net, *_):
    if dist.get_rank() == 0:
        if SAVED:
            os.kill(os.getpid(), signal.SIGKILL)
        if os.path.exists(path):
            os.remove(path)
        torch.save(net.state_dict(), path)
    dist.barrier()


def load(path, net, *_):
    net.load_state_dict(torch.load(path))
