# wrong: what one does with gradients, and not with this sum
# hint: sum
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item() // dist.get_world_size()
