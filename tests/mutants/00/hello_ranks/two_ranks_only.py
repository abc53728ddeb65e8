# wrong: written for two ranks: each adds what its neighbour has
# hint: sum
import torch
import torch.distributed as dist


def hello(number):
    if dist.get_world_size() == 1:
        return number
    parts = [torch.tensor(0) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.tensor(number))
    return parts[0].item() + parts[1].item()
