# wrong: "Rank 0 does the adding up": the others never enter
# hint: hang
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    if dist.get_rank() == 0:
        dist.all_reduce(total)
    return total.item()
