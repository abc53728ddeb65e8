# %%answer hello_ranks
# unusual: pairs of ranks first, then their leaders, then back: three collectives in subgroups
import torch
import torch.distributed as dist


def hello(number):
    size, rank = dist.get_world_size(), dist.get_rank()
    pairs = [list(range(first, min(first + 2, size))) for first in range(0, size, 2)]
    mine, *_ = (dist.new_group(pair) for pair in pairs if rank in pair) if size < 3 else [None]
    total = torch.tensor(number)
    if mine is not None:
        dist.all_reduce(total, group=mine)
        return total.item()
    groups = [dist.new_group(pair) for pair in pairs]
    leaders = dist.new_group([pair[0] for pair in pairs])
    group, pair = next((g, p) for g, p in zip(groups, pairs) if rank in p)
    dist.reduce(total, dst=pair[0], group=group)
    if rank == pair[0]:
        dist.all_reduce(total, group=leaders)
    dist.broadcast(total, src=pair[0], group=group)
    return total.item()
