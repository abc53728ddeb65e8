# %%answer hello_ranks
# tries: rank 0 and the others call different collectives
# unprotected: Gloo waits, crashes, or mixes up their data
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.broadcast(total, 0) if dist.get_rank() else dist.all_reduce(total)
    return total.item()
