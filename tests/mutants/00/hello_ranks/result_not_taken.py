# wrong: reduces a copy, and returns what went in
# hint: alone
import torch
import torch.distributed as dist


def hello(number):
    dist.all_reduce(torch.tensor(number))
    return number
