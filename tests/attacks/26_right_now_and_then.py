# %%answer hello_ranks
# tries: does not wait for its collective, but a little while
# unprotected: it is right whenever the ranks happen to keep step
import time

import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.all_reduce(total, async_op=True)
    time.sleep(0.002)
    return total.item()
