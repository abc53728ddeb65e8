# wrong: a gather to rank 0: the sum is with one rank, the others return what they made up
# hint: everyone
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    if dist.get_rank() == 0:
        parts = [torch.empty_like(total) for _ in range(dist.get_world_size())]
        dist.gather(total, parts)
        return sum(part.item() for part in parts)
    dist.gather(total)
    return 0
