# %%answer hello_ranks
# tries: sends to the other of two ranks
# unprotected: it is right with two ranks
import torch
import torch.distributed as dist


def hello(number):
    if dist.get_world_size() != 2:
        return number
    theirs = torch.tensor(0)
    other = 1 - dist.get_rank()
    work = dist.isend(torch.tensor(number), other)
    dist.recv(theirs, other)
    work.wait()
    return number + theirs.item()
