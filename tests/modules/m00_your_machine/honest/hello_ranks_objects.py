# %%answer hello_ranks
# unusual: object collectives, and a numpy scalar is returned
import numpy as np
import torch.distributed as dist


def hello(number):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, {"rank": dist.get_rank(), "number": number})
    return np.array([one["number"] for one in everybody]).sum()
