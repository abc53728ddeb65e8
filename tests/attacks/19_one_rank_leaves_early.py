# %%answer hello_ranks
# row: 19
# tries: rank 1 returns what it has, and never enters the collective
# unprotected: the others wait until the collective's own limit, half an hour
# expect: 0
import torch
import torch.distributed as dist


def hello(number):
    if dist.get_rank() == 1:
        return number
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
