import io

import torch
import torch.distributed as dist

turn = 0


def put(name, value):
    """Into the group's own store, for any rank to take."""
    text = io.BytesIO()
    torch.save(value, text)
    dist.distributed_c10d._get_default_store().set(f"{name}-{turn}", text.getvalue())


def taken(name):
    text = dist.distributed_c10d._get_default_store().get(f"{name}-{turn}")
    return torch.load(io.BytesIO(text))


def traded(mine, ranks=None):
    """The values of these ranks, or all."""
    global turn
    turn += 1
    put(dist.get_rank(), mine)
    return [taken(rank) for rank in ranks or range(dist.get_world_size())]
