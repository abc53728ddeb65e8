# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 06 Data parallel CIFAR-10 with torch.distributed: exercises
#
# Six pieces make a training script data parallel: the ranks find each other, share out the samples,
# average their gradients, add up their metrics, survive a kill, and run under `torchrun` and `srun`
# alike. You write each of them here, on this machine, and the same code then runs on a cluster.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. An answer is
# a small module of its own: it brings its own imports and sees nothing of the other cells. The check
# runs it on 1, 2, 3 and 4 ranks with fresh inputs each time and says which claims hold. Check as
# often as you like; a wrong answer costs nothing.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `process_group`: who am I, and where do we meet?
#
# A launcher starts N copies of your script and tells each copy apart through environment variables.
# `torchrun` and `srun` use other names for the same facts. One function that reads both is what lets
# the same script run on a laptop, on one node and on sixteen.
#
# | | torchrun | srun |
# |---|---|---|
# | rank, world size | `RANK`, `WORLD_SIZE` | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` |
# | rank on the node | `LOCAL_RANK` | `SLURM_LOCALID` |
# | ranks on the node | `LOCAL_WORLD_SIZE` | one of `SLURM_STEP_TASKS_PER_NODE`: `2(x2),1` is 2, 2, 1 |
# | node | `GROUP_RANK` (0 if absent) | `SLURM_NODEID` |
# | master | `MASTER_ADDR`, `MASTER_PORT` | the first host of `SLURM_STEP_NODELIST`, a port you derive |
#
# What to decide, and how:
#
# - **Which launcher.** torchrun sets `RANK`, also where SLURM's variables are there too: under
#   `srun torchrun`, torchrun is nearer. A task that srun started has `SLURM_STEP_ID`. Otherwise
#   this is one process: rank 0 of 1, node 0, master `localhost`, port 0 (any free port). That
#   includes a batch script that runs `python` without `srun`.
# - **The master.** SLURM compresses node lists: `gpu-a[08-10],login1` is gpu-a08, gpu-a09, gpu-a10,
#   login1. A name can have several brackets.
# - **The port.** From the job id (`SLURM_JOB_ID`), in 1024 to 32767, and different for jobs whose ids
#   are less than 1000 apart. Under srun, a `MASTER_ADDR` or `MASTER_PORT` that the job script has
#   exported wins over what you would derive.
# - **The device.** `cuda:N` among the GPUs that this process can see, `cpu` if it sees none. With
#   `--gpus-per-task=1`, local rank 3 sees one GPU, and calls it `cuda:0`. Where ranks outnumber
#   GPUs they share: local rank modulo GPUs.
#
# *Before you start: five tasks run on three nodes, and every rank uses its local rank as its rank.
# How many believe that they are rank 0, and what will each of them write?*

# %%
# %%answer process_group
import os
import re
from collections.abc import Mapping

import torch
import torch.distributed as dist


def settings(environment: Mapping[str, str], gpus: int) -> dict[str, int | str]:
    """Where the process with this environment stands among its ranks.

    `gpus` is how many GPUs the process can see. Returns, with these keys and types:
    `rank`, `world_size`, `local_rank` (among the ranks of its node), `local_world_size` (how many
    ranks its node has), `node_rank` (all int), `master_address` (str), `master_port` (int), and
    `device` ("cpu" or "cuda:N").
    """
    ### BEGIN SOLUTION
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
    elif "SLURM_STEP_ID" in environment:
        node = int(environment["SLURM_NODEID"])
        master = environment.get("MASTER_ADDR") or first_host(environment["SLURM_STEP_NODELIST"])
        port = environment.get("MASTER_PORT") or 10_000 + int(environment["SLURM_JOB_ID"]) % 20_000
        found = {
            "rank": int(environment["SLURM_PROCID"]),
            "world_size": int(environment["SLURM_STEP_NUM_TASKS"]),
            "local_rank": int(environment["SLURM_LOCALID"]),
            "local_world_size": tasks_per_node(environment["SLURM_STEP_TASKS_PER_NODE"])[node],
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
    """'2(x2),1' is [2, 2, 1]."""
    runs = re.findall(r"(\d+)(?:\(x(\d+)\))?", counts)
    return [int(tasks) for tasks, times in runs for _ in range(int(times or 1))]


def first_host(nodes: str) -> str:
    """'n[08-10],login1' begins with 'n08'."""
    first = re.match(r"(\[[^]]*\]|[^,])*", nodes)[0]  # a comma in brackets separates no hosts
    return re.sub(r"\[(\d+)[^]]*\]", r"\1", first)
    ### END SOLUTION


def start() -> dict[str, int | str]:
    """Make the default process group from os.environ and return this process's settings.

    The backend is nccl where the device is a GPU, gloo where it is the CPU.
    """
    ### BEGIN SOLUTION
    mine = settings(os.environ, torch.cuda.device_count())
    dist.init_process_group(
        "gloo" if mine["device"] == "cpu" else "nccl",
        init_method=f"tcp://{mine['master_address']}:{mine['master_port']}",
        rank=mine["rank"],
        world_size=mine["world_size"],
    )
    return mine
    ### END SOLUTION

# %%
check("process_group")

# %% [markdown]
# ## `shard_sampler`: which samples, on which rank, in which epoch?
#
# Data parallel training is only the same training if the ranks together see every sample once per
# epoch, in a new random order each time. Nobody hands the samples out: each rank works out its own
# share, alone, and all must come to the same division.
#
# - All ranks draw **one** random order of `range(length)`, from `seed` and the epoch and from nothing
#   else. The global random generators are neither used nor changed: they belong to augmentation and
#   dropout, and differ from rank to rank.
# - The order is **padded** to a multiple of the world size by repeating it from its start, as
#   `torch.utils.data.DistributedSampler` does, so that each rank has ceil(n / W) samples. With 7
#   samples on 3 ranks, two come up twice. With 1 sample on 4 ranks, it comes up four times. With no
#   samples, nobody has any.
# - Each rank then takes its part: every W-th, or a block. Over the epochs it meets all samples.
#
# `set_epoch(epoch)` chooses the order; without it, it is epoch 0. Indices are plain ints.
#
# *Before you start: why pad, instead of giving one rank a sample less? Think of what that rank does
# while the others are in their last `all_reduce`.*

# %%
# %%answer shard_sampler
from collections.abc import Iterator

import torch


class ShardSampler:
    """The indices that one rank takes from `length` samples in an epoch.

    All ranks share out one random order of range(length), drawn from `seed` and the epoch. It is
    padded to a multiple of `world_size` by repeating it from its start (more than once if there are
    fewer samples than ranks), so that every rank takes ceil(length / world_size). Yields int.
    """

    def __init__(self, length: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of `epoch`; the first is 0, also without this call."""
        ### BEGIN SOLUTION
        self.epoch = epoch
        ### END SOLUTION

    def __len__(self) -> int:
        """How many samples this rank takes in an epoch."""
        ### BEGIN SOLUTION
        return -(-self.length // self.world_size)
        ### END SOLUTION

    def __iter__(self) -> Iterator[int]:
        ### BEGIN SOLUTION
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=generator).tolist()
        for position in range(self.rank, len(self) * self.world_size, self.world_size):
            yield order[position % self.length]
        ### END SOLUTION

# %%
check("shard_sampler")

# %% [markdown]
# ## `ddp`: the same gradient everywhere

# %% [markdown]
# ## `global_metrics`: accuracy and loss of the whole test set
#
# Each rank has evaluated its shard. The figure in the paper is of all samples, and the shards are not
# of one length: the last batch is short, and a rank may have had nothing at all.
#
# Write `global_metrics(batches)`: from this rank's batches of logits (float32, B × classes) and labels
# (int64, B) to the mean cross-entropy and the accuracy over the samples of **all** ranks, the same on
# every rank. No batch, or a batch with B = 0, is legal; where no rank has a sample, both are NaN.
#
# Everything travels in **one** collective, in float64 (or int64): as few bytes as the sums need. A
# float32 counts to 16 777 216 and then stands still, less than the tokens of an evening's evaluation.
#
# *Before you start: rank 0 has 90 samples and 90 % of them right, rank 1 has 10 and 10 % right. What
# is the accuracy, and what is the mean of the two accuracies?*

# %%
# %%answer global_metrics
import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.nn import functional


def global_metrics(batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float | int]:
    """Mean cross-entropy and accuracy over the samples of all ranks.

    `batches` is this rank's shard: pairs of logits, float32 (B, classes), and labels, int64 (B,),
    with B differing, perhaps 0; perhaps there is no batch. Returns `loss` (float, nats), `accuracy`
    (float, 0 to 1) and `samples` (int, on all ranks), the same on every rank; loss and accuracy are
    NaN where no rank has a sample.
    """
    ### BEGIN SOLUTION
    sums = torch.zeros(3, dtype=torch.float64)  # loss, right answers, samples
    for logits, labels in batches:
        sums[0] += functional.cross_entropy(logits.double(), labels, reduction="sum")
        sums[1] += (logits.argmax(dim=1) == labels).sum()
        sums[2] += len(labels)
    dist.all_reduce(sums)
    loss, right, samples = sums.tolist()
    if samples == 0:
        return {"loss": math.nan, "accuracy": math.nan, "samples": 0}
    return {"loss": loss / samples, "accuracy": right / samples, "samples": int(samples)}
    ### END SOLUTION

# %%
check("global_metrics")

# %% [markdown]
# ## `checkpoint`: stopped, and carried on as if nothing had happened

# %% [markdown]
# ## `ddp_train`: from a serial script to all ranks
