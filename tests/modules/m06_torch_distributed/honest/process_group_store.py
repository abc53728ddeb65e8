# %%answer process_group
# unusual: a TCPStore of its own, a device object, a timedelta, logging, a table of names
import logging
import os
import re
from datetime import timedelta
from itertools import chain, repeat

import torch
import torch.distributed as dist

log = logging.getLogger("start")

TORCHRUN = {
    "rank": "RANK",
    "world_size": "WORLD_SIZE",
    "local_rank": "LOCAL_RANK",
    "local_world_size": "LOCAL_WORLD_SIZE",
    "node_rank": "GROUP_RANK",
    "master_port": "MASTER_PORT",
}
SRUN = {
    "rank": "SLURM_PROCID",
    "world_size": "SLURM_STEP_NUM_TASKS",
    "local_rank": "SLURM_LOCALID",
    "node_rank": "SLURM_NODEID",
}
ALONE = dict(rank=0, world_size=1, local_rank=0, local_world_size=1, node_rank=0, master_port=0)


def settings(environment, gpus):
    mine = dict(ALONE, master_address="localhost")
    if "RANK" in environment:
        mine |= {key: int(environment.get(name, 0)) for key, name in TORCHRUN.items()}
        mine["master_address"] = environment["MASTER_ADDR"]
    elif "SLURM_STEP_ID" in environment:
        mine |= {key: int(environment[name]) for key, name in SRUN.items()}
        groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment["SLURM_STEP_TASKS_PER_NODE"])
        tasks = list(chain.from_iterable(repeat(int(n), int(x or 1)) for n, x in groups))
        mine["local_world_size"] = tasks[mine["node_rank"]]
        first = re.match(r"(?:\[[^\]]*\]|[^,\[])+", environment["SLURM_STEP_NODELIST"]).group()
        first = re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first)
        mine["master_address"] = environment.get("MASTER_ADDR", first)
        derived = 15_000 + int(environment["SLURM_JOB_ID"]) % 1000
        mine["master_port"] = int(environment.get("MASTER_PORT", derived))
    mine["device"] = (
        torch.device("cuda", mine["local_rank"] % gpus) if gpus else torch.device("cpu")
    )
    return mine


def start():
    mine = settings(os.environ, torch.cuda.device_count())
    store = dist.TCPStore(
        mine["master_address"],
        mine["master_port"],
        world_size=mine["world_size"],
        is_master=mine["rank"] == 0,
        timeout=timedelta(seconds=60),
    )
    dist.init_process_group(
        backend="gloo" if mine["device"].type == "cpu" else "nccl",
        store=dist.PrefixStore("training", store),
        rank=mine["rank"],
        world_size=mine["world_size"],
    )
    log.info("%s", mine)
    mine["device"] = str(mine["device"])
    return mine


if __name__ == "__main__":
    print(start())
