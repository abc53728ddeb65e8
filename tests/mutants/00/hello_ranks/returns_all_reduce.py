# wrong: all_reduce works in place; what it returns is None
# hint: type
import torch
import torch.distributed as dist


def hello(number):
    return dist.all_reduce(torch.tensor(number))
