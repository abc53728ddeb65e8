# wrong: the wrong reduction
# hint: sum
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.all_reduce(total, op=dist.ReduceOp.MAX)
    return total.item()
