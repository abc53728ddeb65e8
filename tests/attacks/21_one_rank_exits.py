# %%answer hello_ranks
# row: 21
# tries: rank 1 leaves with exit code 0 while the others wait for it
# unprotected: the others wait for ever, or the exit code is that of success
# expect: 0
import os

import torch
import torch.distributed as dist


def hello(number):
    if dist.get_rank() == 1:
        os._exit(0)
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
