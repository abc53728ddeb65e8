# %%answer process_group
# unusual: a dataclass and asdict, numpy integers, lru_cache, a parser for node lists of its own
import os
import warnings
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.distributed as dist


@dataclass
class Settings:
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    master_address: str = "localhost"
    master_port: int = 0
    device: str = "cpu"


@lru_cache
def spread(text):
    counts = []
    for part in text.split(","):
        number, _, times = part.rstrip(")").partition("(x")
        counts.append(np.repeat(np.int64(number), int(times or 1)))
    return np.concatenate(counts)


def head(hosts):
    depth, name = 0, ""
    for character in hosts:
        if character == "," and depth == 0:
            break
        depth += (character == "[") - (character == "]")
        name += character
    while "[" in name:
        before, _, rest = name.partition("[")
        inside, _, after = rest.partition("]")
        name = before + inside.replace(",", "-").split("-")[0] + after
    return name


def settings(environment, gpus):
    get = environment.get
    if get("RANK") is not None:
        found = Settings(
            *(np.int64(get(name)) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")),
            np.int64(get("LOCAL_WORLD_SIZE")),
            np.int64(get("GROUP_RANK", "0")),
            get("MASTER_ADDR"),
            np.int64(get("MASTER_PORT")),
        )
    elif get("SLURM_STEP_ID") is not None:
        node = np.int64(get("SLURM_NODEID"))
        found = Settings(
            np.int64(get("SLURM_PROCID")),
            np.int64(get("SLURM_STEP_NUM_TASKS")),
            np.int64(get("SLURM_LOCALID")),
            spread(get("SLURM_STEP_TASKS_PER_NODE"))[node],
            node,
            get("MASTER_ADDR") or head(get("SLURM_STEP_NODELIST")),
            np.int64(get("MASTER_PORT") or 20_000 + int(get("SLURM_JOB_ID")) % 10_000),
        )
    else:
        warnings.warn("no launcher: one process", stacklevel=2)
        found = Settings()
    if gpus:
        found.device = f"cuda:{found.local_rank % gpus}"
    return asdict(found)


def start():
    mine = settings(os.environ, torch.cuda.device_count())
    os.environ |= {
        "MASTER_ADDR": mine["master_address"],
        "MASTER_PORT": str(mine["master_port"]),
        "RANK": str(mine["rank"]),
        "WORLD_SIZE": str(mine["world_size"]),
    }
    dist.init_process_group("nccl" if mine["device"] != "cpu" else "gloo")
    return mine
