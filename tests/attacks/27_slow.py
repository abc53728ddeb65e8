# %%answer hello_ranks
# row: 27
# tries: nothing: it is right, and slow within the limit
# unprotected: a grader that is impatient marks it down
# expect: full
import time

import torch
import torch.distributed as dist


def hello(number):
    time.sleep(1.5 if dist.get_rank() == 0 else 0.0)
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
