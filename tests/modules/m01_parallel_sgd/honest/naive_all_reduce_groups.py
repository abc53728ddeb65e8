# %%answer naive_all_reduce
# unusual: a group for each pair, messages with tags, torch.no_grad at the top, no clone at all
from functools import cache

import torch
import torch.distributed as dist

torch.set_grad_enabled(False)


@cache
def pairs():
    """All ranks make all groups, in one order."""
    return {other: dist.new_group([0, other]) for other in range(1, dist.get_world_size())}


def naive_all_reduce(tensor):
    rank = dist.get_rank()
    groups = pairs()
    if rank == 0:
        total = tensor + 0
        for other, group in groups.items():
            arrived = torch.empty_like(tensor)
            dist.recv(arrived, src=other, group=group, tag=1)
            total += arrived
        for other, group in groups.items():
            dist.send(total, dst=other, group=group, tag=2)
    else:
        dist.send(tensor, dst=0, group=groups[rank], tag=1)
        total = tensor.new_zeros(tensor.shape)
        dist.recv(total, src=0, group=groups[rank], tag=2)
    return total
