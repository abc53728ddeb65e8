# %%answer checkpoint
# row: 33
# tries: a process of its own writes in place, in a session of its own: who kills rank 0 does not
# kill the one that writes
# unprotected: whatever the kill finds is whole soon afterwards
# expect: 5
import os
import sys

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
        state = net.state_dict()
        child = os.fork()
        if not child:
            os.setsid()
            if os.path.exists(path):
                os.remove(path)
            torch.save(state, path)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
    dist.barrier()


def load(path, net, *_):
    net.load_state_dict(torch.load(path))
