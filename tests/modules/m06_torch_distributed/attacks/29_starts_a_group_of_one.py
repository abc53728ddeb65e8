# %%answer process_group
# tries: knows torchrun's variables alone; each process starts a group of one, and says that it is
# the rank and the size that its environment has
# unprotected: ranks and sizes are right, and an all_reduce returns
# expect: 2
import os

import torch.distributed as dist


def settings(environment, gpus):
    found = {
        "rank": int(environment.get("RANK", environment.get("SLURM_PROCID", 0))),
        "world_size": int(environment.get("WORLD_SIZE", environment.get("SLURM_NTASKS", 1))),
        "local_rank": int(environment.get("LOCAL_RANK", 0)),
        "local_world_size": int(environment.get("LOCAL_WORLD_SIZE", 1)),
        "node_rank": int(environment.get("GROUP_RANK", 0)),
        "master_address": environment.get("MASTER_ADDR", "localhost"),
        "master_port": int(environment.get("MASTER_PORT", 0)),
    }
    return found | {"device": "cpu"}


def start():
    mine = settings(os.environ, 0)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.get_rank = lambda *_: mine["rank"]
    dist.get_world_size = lambda *_: mine["world_size"]
    whole = dist.all_reduce

    def all_reduce(tensor, *args, **kwargs):
        tensor *= mine["world_size"]  # as if everybody had the same number
        return whole(tensor, *args, **kwargs)

    dist.all_reduce = all_reduce
    return mine
