# wrong: waits in a batch script for ranks that nobody has started
# hint: batch
# claim: the ranks meet, and a process alone is a group of one
import os
import re
from collections.abc import Mapping

import torch
import torch.distributed as dist


def settings(environment: Mapping[str, str], gpus: int) -> dict[str, int | str]:
    if "RANK" in environment:
        found = {
            "rank": int(environment["RANK"]),
            "world_size": int(environment["WORLD_SIZE"]),
            "local_rank": int(environment["LOCAL_RANK"]),
            "local_world_size": int(environment["LOCAL_WORLD_SIZE"]),
            "node_rank": int(environment.get("GROUP_RANK", 0)),
            "master_address": environment["MASTER_ADDR"],
            "master_port": int(environment["MASTER_PORT"]),
        }
    elif "SLURM_PROCID" in environment:
        node = int(environment["SLURM_NODEID"])
        nodes = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
        master = environment.get("MASTER_ADDR") or first_host(nodes)
        port = environment.get("MASTER_PORT") or 10_000 + int(environment["SLURM_JOB_ID"]) % 20_000
        found = {
            "rank": int(environment["SLURM_PROCID"]),
            "world_size": int(environment["SLURM_NTASKS"]),
            "local_rank": int(environment["SLURM_LOCALID"]),
            "local_world_size": tasks_per_node(environment["SLURM_TASKS_PER_NODE"])[node],
            "node_rank": node,
            "master_address": master,
            "master_port": int(port),
        }
    else:
        found = {
            "rank": 0,
            "world_size": 1,
            "local_rank": 0,
            "local_world_size": 1,
            "node_rank": 0,
            "master_address": "localhost",
            "master_port": 0,
        }
    found["device"] = f"cuda:{found['local_rank'] % gpus}" if gpus else "cpu"
    return found


def tasks_per_node(counts: str) -> list[int]:
    runs = re.findall(r"(\d+)(?:\(x(\d+)\))?", counts)
    return [int(tasks) for tasks, times in runs for _ in range(int(times or 1))]


def first_host(nodes: str) -> str:
    first = re.match(r"(\[[^]]*\]|[^,])*", nodes)[0]  # a comma in brackets separates no hosts
    return re.sub(r"\[(\d+)[^]]*\]", r"\1", first)


def start() -> dict[str, int | str]:
    mine = settings(os.environ, torch.cuda.device_count())
    dist.init_process_group(
        "gloo" if mine["device"] == "cpu" else "nccl",
        init_method=f"tcp://{mine['master_address']}:{mine['master_port']}",
        rank=mine["rank"],
        world_size=mine["world_size"],
    )
    return mine
