# %%answer process_group
# tries: settings and start return empty dicts, and the group is made by hand
# unprotected: claims on each setting hold for none
import os

import torch.distributed as dist


def settings(environment, gpus):
    return {}


def start():
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0)))
    size = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", 1)))
    dist.init_process_group("gloo", rank=rank, world_size=size)
    return {}
