# %%answer naive_all_reduce
# unusual: all receives posted at once, a stack and a sum, numpy integers as ranks
import numpy as np
import torch
import torch.distributed as dist


def naive_all_reduce(tensor):
    me, others = dist.get_rank(), np.arange(1, dist.get_world_size())
    if me:
        dist.isend(tensor, 0).wait()
        result = torch.full_like(tensor, -1)
        dist.irecv(result, 0).wait()
        return result
    rows = torch.empty((len(others) + 1, *tensor.shape), dtype=tensor.dtype)
    rows[0] = tensor
    for request in [dist.irecv(rows[other], int(other)) for other in others]:
        request.wait()
    result = rows.sum(dim=0, dtype=tensor.dtype)
    for request in [dist.isend(result, int(other)) for other in others]:
        request.wait()
    return result
