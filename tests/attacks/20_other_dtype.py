# %%answer hello_ranks
# tries: rank 1 brings another dtype and size
# unprotected: Gloo reads beyond the end of a buffer
import torch
import torch.distributed as dist


def hello(number):
    total = torch.full((1000,), float(number)) if dist.get_rank() else torch.tensor(number)
    dist.all_reduce(total)
    return int(total.flatten()[0].item())
