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
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `process_group`: who am I, and where do we meet?
#
# **More**, about 25 minutes: after the core exercises, or at home.
#
# **To write:** the settings of both launchers, and the start. **Not allowed:** other programs, such
# as `scontrol show hostnames`. **Allowed:** everything else that an answer may import.
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
    # YOUR CODE HERE
    raise NotImplementedError()


def start() -> dict[str, int | str]:
    """Make the default process group from os.environ and return this process's settings.

    The backend is nccl where the device is a GPU, gloo where it is the CPU.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("process_group")

# %% [markdown]
# ## `shard_sampler`: which samples, on which rank, in which epoch?
#
# **Core**, about 10 minutes.
#
# **To write:** the order, the padding and the rank's part. **Not allowed:** `DistributedSampler`,
# other programs. **Allowed:** everything else that an answer may import.
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
        # YOUR CODE HERE
        raise NotImplementedError()

    def __len__(self) -> int:
        """How many samples this rank takes in an epoch."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def __iter__(self) -> Iterator[int]:
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("shard_sampler")

# %% [markdown]
# ## `ddp`: the same gradient everywhere
#
# **Core**, about 25 minutes.
#
# **To write:** the wrapper. **Not allowed:** `DistributedDataParallel` and its like (`fully_shard`,
# `replicate`). **Allowed:** everything else that an answer may import, hooks of autograd and
# collectives too.
#
# Every rank holds the whole model and computes the gradient of its share of the batch. If all ranks
# start from the same weights and apply the same mean gradient, they stay alike for ever, and N ranks
# are one process with a batch N times as large. What `torch.nn.parallel.DistributedDataParallel`
# does for that fits on a page (Li et al., *PyTorch Distributed*, VLDB 2020, section 3). Write it:
#
# - **Alike at the start.** Each rank may have drawn its weights itself. After construction, all have
#   rank 0's parameters, trained or frozen, and rank 0's buffers.
# - **Buckets.** A message costs its latency however small it is. Gradients travel together, in
#   buckets of at most `bucket_bytes`. Backward reaches the last layer first, so the first bucket
#   holds the last parameters.
# - **Overlap.** As soon as a bucket's gradients are all there, it leaves, with an asynchronous
#   `all_reduce` from a hook (`Tensor.register_post_accumulate_grad_hook`), and backward goes on.
#   Waiting is for `synchronize()`, which the training loop calls between `backward()` and
#   `optimizer.step()`.
# - **Unused parameters.** A branch that this rank did not take in this step leaves `p.grad` at
#   `None`, and no hook fires. Other ranks may have taken it.
# - A **tied** weight (one tensor under two names) is one parameter; a **frozen** one
#   (`requires_grad=False`) has no gradient to send.
#
# The model may be of any floating dtype, the same for all its trained parameters. The ranks' shares
# of a batch are equally large.
#
# *Before you start: rank 0 took the left branch in this step and rank 1 the right one. On which rank
# is the first bucket complete first, and what happens if each rank sends its buckets in the order in
# which they became complete?*

# %%
# %%answer ddp
import torch
import torch.distributed as dist
from torch import nn


class DataParallel(nn.Module):
    """Keep one model per rank, all alike, by averaging their gradients.

    `module` is wrapped, not copied. Once this is constructed, its parameters and buffers are rank
    0's on every rank. Its trained parameters are dealt to buckets, last parameter first, each
    once: a bucket takes parameters as long as they fit into `bucket_bytes`; one that is larger
    than that has a bucket of its own.
    """

    def __init__(self, module: nn.Module, bucket_bytes: int = 2**20) -> None:
        super().__init__()
        self.module = module
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, *inputs, **options):
        """What `module` makes of it."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def synchronize(self) -> None:
        """Call after backward(), before the optimizer: returns when every p.grad is the mean.

        A parameter that got no gradient on this rank counts as zero in the mean.
        """
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("ddp")

# %% [markdown]
# ## `global_metrics`: accuracy and loss of the whole test set
#
# **More**, about 10 minutes: after the core exercises, or at home.
#
# **To write:** the sums over all ranks' samples. **Allowed:** one collective of
# `torch.distributed`, and anything else that an answer may import.
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
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("global_metrics")

# %% [markdown]
# ## `checkpoint`: stopped, and carried on as if nothing had happened
#
# **More**, about 35 minutes: after the core exercises, or at home.
#
# **To write:** the sampler, `save` and `load`. **Allowed:** anything that an answer may import.
#
# A job on a cluster ends when its time is up, not when its epoch is. Whatever it does not write down
# is lost, and the next job may get another number of nodes. Training that is stopped and resumed
# should end with the weights of a run that never stopped. The loop is this:
#
# ```python
# while sampler.epoch < epochs:
#     for samples in sampler:
#         ...                                  # forward, backward, mean gradient, optimizer.step()
#         if time_is_up():
#             save(path, model, optimizer, sampler)
#             return
# ```
#
# and a job that starts again calls `load(path, model, optimizer, sampler)` first.
#
# - **`ResumableSampler`** gives this rank's part of each global batch, as a list of ints, from where
#   it stands to the end of the epoch. The global batch stays the same size whatever the number of
#   ranks, so that the same step takes the same samples. `length` is a multiple of `batch_size`, and
#   that of the number of ranks. `state_dict()` may hold what you like, as long as another number of
#   ranks can read it.
# - **`save`** is called by all ranks at the same step, and rank 0 writes. The file at `path` is
#   complete as soon as `save` has returned on any rank. A process that is killed at any moment leaves
#   the old file or the new one, never a part of one.
# - **`load`** is called by all ranks. All of them can read `path`.
#
# *Before you start: `save` is called from inside the `for` loop. Where does the generator behind
# `for samples in sampler` stand at that moment, and has the batch that it gave out last been
# trained on?*

# %%
# %%answer checkpoint
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist


class ResumableSampler:
    """This rank's share of every global batch, from where the last run stopped.

    In epoch e the order of all samples is torch.randperm(length, generator=g), with g a
    torch.Generator seeded with seed + e. A global batch is the next `batch_size` samples of it,
    and rank r of w takes batch[r::w]. `length` is a multiple of `batch_size`, and that of w.

    `epoch` is the attribute that says which epoch the next batch is from, 0 at first.
    """

    def __init__(self, length: int, batch_size: int, seed: int = 0) -> None:
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.epoch = 0
        # YOUR CODE HERE
        raise NotImplementedError()

    def __iter__(self) -> Iterator[list[int]]:
        """The batches that are left of this epoch; when they are used up, `epoch` grows by one."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands, a batch that was given out counted as done."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go to where another sampler stood, on whatever number of ranks that was."""
        # YOUR CODE HERE
        raise NotImplementedError()


def save(path: str, model, optimizer, sampler) -> None:
    """Write the state of all three to the file `path`. Called by all ranks, written by rank 0.

    When it returns, on any rank, the file is complete. Killed at any moment, it leaves a complete
    file at `path`: the one that was there before, or the new one.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


def load(path: str, model, optimizer, sampler) -> None:
    """Put the state that `save` wrote to `path` back into all three, on every rank."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("checkpoint")

# %% [markdown]
# ## `ddp_train`: from a serial script to all ranks
#
# **Core**, about 15 minutes.
#
# **To write:** the script for all ranks. **Allowed:** anything that an answer may import,
# `DistributedDataParallel` and `DistributedSampler` too.
#
# You know now what happens inside; from here on PyTorch's own `DistributedDataParallel` and
# `DistributedSampler` do it. This is a serial training script:
#
# ```python
# def train(
#     model: nn.Module,
#     dataset: Dataset,
#     epochs: int,
#     batch_size: int,
#     learning_rate: float,
#     seed: int,
# ) -> list[float]:
#     optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
#     losses = []
#     for epoch in range(epochs):
#         draw = torch.Generator().manual_seed(seed + epoch)
#         order = torch.randperm(len(dataset), generator=draw).tolist()
#         total = 0.0
#         for images, labels in DataLoader(dataset, batch_size, sampler=order):
#             loss = functional.cross_entropy(model(images), labels)
#             optimizer.zero_grad()
#             loss.backward()
#             optimizer.step()
#             total += loss.item() * len(labels)
#         losses.append(total / len(dataset))
#         print(f"epoch {epoch}: loss {losses[-1]:.4f}")
#     return losses
# ```
#
# Make it one that runs on all ranks of a job, started by `torchrun` or by `srun`, and that ends with
# the same weights:
#
# - The arguments mean what they meant. `batch_size` is the number of samples in a step, on all ranks
#   together, and divides evenly.
# - `model` arrives with other weights on each rank; rank 0's count. It is trained in place, on this
#   rank's GPU if there is one.
# - Each sample is used once per epoch, in the serial script's order. `DistributedSampler` draws its
#   order from its `seed` plus the epoch in just this way, and deals it out in turn.
# - The losses that it returns, on every rank, and that rank 0 prints are means over all samples.
#
# Under torchrun, `RANK`, `WORLD_SIZE` and `LOCAL_RANK` say who this rank is; under srun,
# `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` and `SLURM_LOCALID`. `MASTER_ADDR` and `MASTER_PORT` are
# there in both: torchrun sets them, the job script exports them.
#
# The cell is a script as well: saved to a file, `torchrun --nproc-per-node 2 ddp_train.py` trains a
# small model.
#
# *Before you start: with 4 ranks and the same `batch_size`, should the learning rate change? And if
# each rank took `batch_size` samples instead?*

# %%
# %%answer ddp_train
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset


def train(
    model: nn.Module,
    dataset: Dataset,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Train `model` in place, on all ranks of the job, to where the serial script would take it.

    Who this rank is comes from the environment, torchrun's or srun's; MASTER_ADDR and MASTER_PORT
    are there in both. `batch_size` counts the samples of a step on all ranks together. It is a
    multiple of the number of ranks, and `len(dataset)` is a multiple of it.

    Returns for each epoch the mean loss over all samples, as a float, the same on every rank.
    Rank 0 prints it as the serial script does; the others print nothing.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


if __name__ == "__main__":
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (960,))
    images = torch.randn(10, 3, 8, 8)[labels] + torch.randn(960, 3, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    train(model, TensorDataset(images, labels), 3, batch_size=48, learning_rate=0.05, seed=0)

# %%
check("ddp_train")
