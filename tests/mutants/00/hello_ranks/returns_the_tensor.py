# wrong: right sum, wrong type
# hint: type
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total
