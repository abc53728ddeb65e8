# %% [markdown]
# # 06 Data parallel CIFAR-10 with torch.distributed: exercises
#
# These exercises make a training script data parallel. The ranks find each other, share the samples,
# average their gradients and add up their metrics. They save a checkpoint and continue from it, and
# they run under `torchrun` and under `srun`. You write it here, on this machine; the same code runs on
# a cluster.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells
# below it can use what it defines; where two answers define the same name, the one that was run
# last counts. The check runs the answer on 1, 2, 3 and 4 ranks (`find_the_hang` on one), with new
# inputs each time, and reports which claims hold. Check as often as you like; a wrong answer costs
# nothing. *Before you start* is a question to think about first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
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
# A launcher starts N copies of your script, and environment variables say which copy each one is.
# `torchrun` and `srun` have different names for the same facts. With one function that reads both,
# the same script runs on a laptop, on one node and on sixteen.
#
# | | torchrun | srun |
# |---|---|---|
# | rank, world size | `RANK`, `WORLD_SIZE` | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` |
# | rank on the node | `LOCAL_RANK` | `SLURM_LOCALID` |
# | ranks on the node | `LOCAL_WORLD_SIZE` | one of `SLURM_STEP_TASKS_PER_NODE`: `2(x2),1` is 2, 2, 1 |
# | node | `GROUP_RANK` (0 if absent) | `SLURM_NODEID` |
# | master | `MASTER_ADDR`, `MASTER_PORT` | the first host of `SLURM_STEP_NODELIST`, a port you derive |
#
# The rules:
#
# - **Which launcher.** torchrun sets `RANK`. If it is there, torchrun counts, even if SLURM's variables
#   are there too (`srun torchrun`). A task that srun started has `SLURM_STEP_ID`. Otherwise this is
#   one process: rank 0 of 1, node 0, master `localhost`, port 0 (any free port). That includes a
#   batch script that runs `python` without `srun`, whatever it has exported.
# - **The port.** It comes from the job id (`SLURM_JOB_ID`), is in 1024 to 32767, and differs between
#   jobs whose ids are less than 1000 apart.
# - **The master.** Under srun it is the first host of the step. If the job script has exported
#   `MASTER_ADDR` or `MASTER_PORT`, that value is used instead; it may be one of the two alone.
# - **The device.** `cuda:N` among the GPUs that this process can see, `cpu` if it sees none. With
#   `--gpus-per-task=1`, local rank 3 sees one GPU, and its name is `cuda:0`. If a node has more ranks
#   than GPUs, they share them: local rank modulo GPUs.
#
# *More: the node list.* SLURM compresses node lists: `gpu-a[08-10],login1` is gpu-a08, gpu-a09,
# gpu-a10, login1, and a name can have several brackets. On a cluster `scontrol show hostnames LIST`
# prints the hosts, one a line, and a job script can export the first one as `MASTER_ADDR`. Here your
# Python code reads the list. Do it last: only the claim about the master, 2 of 10 points, needs it.
#
# *Before you start: five tasks run on three nodes, and every rank uses its local rank as its rank.
# How many of them take themselves for rank 0, and what happens when each of them saves a checkpoint?*

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
# **Answer.** Three: each node has a local rank 0. All three write to the same file, and what is in it
# afterwards depends on who was last, or is damaged. They do not meet as one group either: world size
# 5 has ranks 0 to 4 once each.

# %% [markdown]
# ## `shard_sampler`: which samples, on which rank, in which epoch?
#
# **Core**, about 10 minutes.
#
# **To write:** the order, the padding and the rank's part. **Not allowed:** `DistributedSampler`,
# other programs. **Allowed:** everything else that an answer may import.
#
# Data parallel training is the same training only if the ranks together see every sample once per
# epoch, in a new random order in each epoch. No rank hands the samples out: each one computes its own
# share, and the shares must fit together.
#
# - All ranks draw **one** random order of `range(length)`, from `seed` and the epoch and from nothing
#   else: with another number of ranks it is the same order. It does not depend on the global random
#   generators, and leaves them as they are: they are for augmentation and dropout, and differ from
#   rank to rank.
# - The order is **padded** to a multiple of the world size by repeating it from its start, as
#   `torch.utils.data.DistributedSampler` does, so that each rank has ceil(n / W) samples. With 7
#   samples on 3 ranks, two samples come twice. With 1 sample on 4 ranks, it comes four times. With no
#   samples, no rank has any.
# - Each rank then takes its part of the order: every W-th sample, or a block. Over many epochs each
#   rank sees all samples.
#
# `set_epoch(epoch)` chooses the order; before the first call it is that of epoch 0. Indices are plain
# ints.
#
# *Before you start: why pad, instead of giving one rank a sample less? With batches of one sample,
# what does that rank do while the others are in their last `all_reduce`?*

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
# **Answer.** That rank has one step less. It has left the loop while the others wait in an
# `all_reduce` that it never calls: a deadlock, or a wrong match with its next collective. The price
# of padding: a few samples count twice in an epoch, and in an evaluation their errors do too.

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
# start from the same weights and apply the same mean gradient, their weights stay equal, and N ranks
# are one process with a batch N times as large. `torch.nn.parallel.DistributedDataParallel` does this
# (Li et al., *PyTorch Distributed*, VLDB 2020, section 3). Write it in two stages, each worth half of
# the points. Each step of the training loop calls `optimizer.zero_grad()`, then `backward()` once,
# then `synchronize()`, then `optimizer.step()`.
#
# **Stage 1: the plain average**, one `all_reduce` for each parameter, in `synchronize()`. It is done
# when the first seven claims hold.
#
# - **Equal at the start.** Each rank may have drawn its own weights. After construction, all have
#   rank 0's parameters, trained or frozen, and rank 0's buffers.
# - **Unused parameters.** If this rank did not use a branch in this step, `p.grad` is `None` there.
#   Other ranks may have used it: the gradient counts as zero in the mean. If no rank has used it,
#   `p.grad` may be `None` or zero afterwards.
# - A **second** `backward()` before `synchronize()` is not lost in silence: its gradients are in the
#   mean too, added to the first ones, as in a plain average, or it raises a `RuntimeError`.
# - A **tied** weight (one tensor under two names) is one parameter. A **frozen** one
#   (`requires_grad=False`) has no gradient to send.
#
# **Stage 2: buckets that leave while backward runs.** It is done when all claims hold.
#
# - **Buckets.** Each message costs its latency, however small it is. So gradients travel together in
#   buckets. Backward reaches the last layer first, so the parameters are taken last one first. A
#   bucket takes parameters as long as they fit into `bucket_bytes`; the first that does not fit opens
#   the next bucket. A parameter that is larger than `bucket_bytes` has a bucket of its own.
# - **Overlap.** As soon as all gradients of a bucket are there, it leaves: a hook
#   (`Tensor.register_post_accumulate_grad_hook`) calls an asynchronous `all_reduce`, and backward goes
#   on. `synchronize()` waits for all of them. For an unused parameter no hook is called; its bucket
#   leaves in `synchronize()` at the latest.
# - **One fixed order.** Collectives match by order: the first call on one rank meets the first call on
#   the others. So buckets leave in the same order on all ranks, first bucket first, even if a later
#   one is complete earlier.
#
# The model may be of any floating dtype, the same for all its trained parameters. The ranks' shares
# of a batch are equally large.
#
# *Before you start: rank 0 took the left branch in this step and rank 1 the right one, and each branch
# is a bucket. What would be added to what if each rank sent its buckets in the order in which they
# became complete?*

# %%
# %%answer ddp
import torch
import torch.distributed as dist
from torch import nn


class DataParallel(nn.Module):
    """Keep one model per rank, all equal, by averaging their gradients.

    `module` is wrapped, not copied. Once this is constructed, its parameters and buffers are rank
    0's on every rank. Stage 2: its trained parameters are put into buckets, last parameter first,
    each once. A bucket takes parameters as long as they fit into `bucket_bytes`; one that is
    larger than that has a bucket of its own.
    """

    def __init__(self, module: nn.Module, bucket_bytes: int = 2**20) -> None:
        super().__init__()
        self.module = module
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, *inputs, **options):
        """What `module` returns for these inputs."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def synchronize(self) -> None:
        """Call after backward(), before the optimizer: returns when every p.grad is the mean.

        A parameter that got no gradient on this rank counts as zero in the mean. Where no rank
        has one, p.grad may be None or zero.
        """
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("ddp")

# %% [markdown]
# **Answer.** Rank 0 sends the left branch's bucket first, rank 1 the right branch's, and the two meet:
# the left gradients of one rank are added to the right gradients of the other. If the buckets are
# equally long nothing fails, and the weights are wrong. Here rank 0 has no gradients of the right
# branch, so it sends zeros for them, in the place that all ranks know.

# %% [markdown]
# ## `global_metrics`: accuracy and loss of the whole test set
#
# **More**, about 10 minutes: after the core exercises, or at home.
#
# **To write:** the sums over all ranks' samples. **Allowed:** one collective of
# `torch.distributed`, and anything else that an answer may import.
#
# Each rank has evaluated its shard. The accuracy that you report is that of all samples, and the
# shards are not equally long: the last batch is short, and a rank may have had no sample at all.
#
# Write `global_metrics(batches)`. It takes this rank's batches of logits (float32, B × classes) and
# labels (int64, B), and returns the mean cross-entropy and the accuracy over the samples of **all**
# ranks, the same on every rank. Batches come one after the other, and once: there is no second loop
# over them. A rank may have no batch, or a batch with B = 0. If no rank has a sample, both are NaN.
#
# Everything travels in **one** collective, in float64 (or int64), and in as few bytes as the sums need.
# A float32 cannot count beyond 16,777,216 in steps of one: 16,777,216 + 1 is 16,777,216 again. The
# tokens of an evaluation are often more.
#
# *Before you start: rank 0 has 90 samples, and 90 % of its answers are right. Rank 1 has 10 samples,
# and 10 % are right. What is the accuracy, and what is the mean of the two accuracies?*

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
# **Answer.** (81 + 1) / 100 = 82 %. The mean of the two accuracies is 50 %.

# %% [markdown]
# ## `checkpoint`: stopped, and continued as if nothing had happened
#
# **More**, about 35 minutes: after the core exercises, or at home.
#
# **To write:** the sampler, `save` and `load`. **Allowed:** anything that an answer may import.
#
# A job on a cluster ends when its time is over, often in the middle of an epoch. What it has not saved
# is lost, and the next job may get another number of nodes. Training that was stopped and continued
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
# - **`ResumableSampler`** yields this rank's part of each global batch, as a list of ints, from where
#   it stands to the end of the epoch. `global_batch` is the number of samples of a step on all ranks
#   together. It is the same for every number of ranks, so that a step takes the same samples on any
#   of them. `length` is a multiple of `global_batch`, and `global_batch` is a multiple of the number
#   of ranks. `state_dict()` may hold what you like, if another number of ranks can use it.
# - **`save`** is called by all ranks at the same step, and rank 0 writes. The file at `path` is
#   complete when `save` has returned on any rank. A process that is killed at any moment leaves the
#   old file or the new one, never a part of one.
# - **`load`** is called by all ranks. All of them can read `path`.
#
# *Before you start: `save` is called inside the `for` loop. At which line does the generator
# `__iter__` stand at that moment, and has the batch that it yielded last been trained on?*

# %%
# %%answer checkpoint
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist


class ResumableSampler:
    """This rank's share of every global batch, from where the last run stopped.

    In epoch e the order of all samples is torch.randperm(length, generator=g), with g a
    torch.Generator seeded with seed + e. A global batch is the next `global_batch` samples of it,
    and rank r of w takes batch[r::w]. `length` is a multiple of `global_batch`, and that of w.

    `epoch` is the attribute that says which epoch the next batch is from, 0 at first.
    """

    def __init__(self, length: int, global_batch: int, seed: int = 0) -> None:
        self.length, self.global_batch, self.seed = length, global_batch, seed
        self.epoch = 0
        # YOUR CODE HERE
        raise NotImplementedError()

    def __iter__(self) -> Iterator[list[int]]:
        """The batches that are left of this epoch; when they are used up, `epoch` grows by one."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands; a batch that was yielded counts as done."""
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
# **Answer.** It stands at its `yield`: nothing after that line has run for this batch. The batch has
# been trained on. So the position must move on before the `yield`, or the batch comes twice.

# %% [markdown]
# ## `ddp_train`: from a serial script to all ranks
#
# **Core**, about 15 minutes.
#
# **To write:** the script for all ranks. **Allowed:** anything that an answer may import,
# `DistributedDataParallel` and `DistributedSampler` too.
#
# You know now what happens inside. From here on PyTorch's own `DistributedDataParallel` and
# `DistributedSampler` do it. This is a serial training script:
#
# ```python
# def train(
#     model: nn.Module,
#     dataset: Dataset,
#     epochs: int,
#     global_batch: int,
#     learning_rate: float,
#     seed: int,
# ) -> list[float]:
#     optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
#     losses = []
#     for epoch in range(epochs):
#         draw = torch.Generator().manual_seed(seed + epoch)
#         order = torch.randperm(len(dataset), generator=draw).tolist()
#         total = 0.0
#         for images, labels in DataLoader(dataset, global_batch, sampler=order):
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
# - The arguments keep their meaning. `global_batch` is the number of samples in a step, on all ranks
#   together, and a multiple of the number of ranks.
# - `model` has different weights on each rank; training starts from rank 0's. It is trained in place,
#   on this rank's GPU if there is one.
# - Each sample is used once per epoch, in the serial script's order. `DistributedSampler` draws its
#   order from its `seed` plus the epoch in the same way, and gives rank r every W-th sample of it.
# - The losses are means over all samples. Every rank returns them; rank 0 prints them, in the serial
#   script's lines, and no other rank prints an epoch or a loss.
#
# Under torchrun, `RANK`, `WORLD_SIZE` and `LOCAL_RANK` are this rank's numbers; under srun they are
# `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` and `SLURM_LOCALID`. Your answer finds `MASTER_ADDR` and
# `MASTER_PORT` in both cases. torchrun sets them. srun does not, so a job script exports them before
# `srun`:
#
# ```bash
# export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
# ```
#
# (The course's own scripts in `slurm/` need no such lines: their program derives both, as
# `process_group` does.)
#
# The cell is a script as well: saved to a file, `torchrun --nproc-per-node 2 ddp_train.py` trains a
# small model.
#
# *Before you start: with 4 ranks and the same `global_batch`, should the learning rate change? And if
# each rank took `global_batch` samples instead?*

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
    global_batch: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Train `model` in place, on all ranks of the job, to the weights of the serial script.

    This rank's numbers come from the environment, torchrun's or srun's; MASTER_ADDR and MASTER_PORT
    are set in both. `global_batch` counts the samples of a step on all ranks together. It is a
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
    train(model, TensorDataset(images, labels), 3, global_batch=48, learning_rate=0.05, seed=0)

# %%
check("ddp_train")

# %% [markdown]
# **Answer.** With the same `global_batch` each step is the same step: the learning rate stays. If each
# rank took `global_batch` samples, a step would have 4 times as many, and the linear rule would give
# 4 times the rate, with a warm-up.

# %% [markdown]
# ## `find_the_hang`: one rank does not come
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# **To write:** the function that finds the rank for which the others wait. **Allowed:** anything
# that an answer may import.
#
# Here, a check names the rank that hangs. On a cluster nothing does: the job runs, its log is silent,
# and the hours are charged. These tools work there on a job that nobody has prepared:
#
# - `py-spy dump --pid PID` prints where each thread of a process stands, from outside.
# - `srun --jobid=JOB --overlap` starts a command on the nodes of a job that runs.
# - `kill -USR2 PID` makes a rank print its own stack, where py-spy is not allowed. Only this needs a
#   line in the script: `faulthandler.register(signal.SIGUSR2)`.
#
# These work on a job that was started with them:
#
# - `init_process_group(..., timeout=timedelta(minutes=5))`: a wait ends with an error after 5 minutes.
#   By default it takes 30 with Gloo and 10 with NCCL.
# - `TORCH_DISTRIBUTED_DEBUG=DETAIL`: a collective that does not fit the other ranks' is an error, and
#   the error names both.
# - `dist.monitored_barrier(timeout=...)`, with Gloo: rank 0 reports which rank has not come.
# - `TORCH_FR_BUFFER_SIZE=2000`: the flight recorder keeps each rank's last 2000 collectives, with who
#   called them. With `TORCH_NCCL_DUMP_ON_TIMEOUT=1`, NCCL's watchdog writes them at a timeout to
#   `TORCH_FR_DUMP_TEMP_FILE=FOLDER/trace_`, and `torchfrtrace --prefix trace_ FOLDER` compares the
#   ranks (PyTorch tutorial *Flight Recorder for Debugging Stuck Jobs*).
#
# The stacks of all ranks of a job on two nodes, in one command:
#
# ```sh
# srun --jobid=JOB --overlap --nodes=2 --ntasks-per-node=1 --label bash -c '
#   for pid in $(pgrep -u $(id -u) -f "^[^ ]*python.* train.py"); do
#     tr "\0" "\n" < /proc/$pid/environ | grep -E "^(RANK|SLURM_PROCID)="
#     py-spy dump --pid $pid
#   done'
# ```
#
# Under `torchrun` this lists `torchrun` too, and the workers of each loader.
#
# The job's script is `train.py`. You are given what there is of it when it hangs, by rank and in no
# order:
#
# - `stacks`: what `py-spy dump` printed. It is empty if the job has ended.
# - `log`: the standard error of all ranks. A rank that ends with an error writes a traceback whose
#   lines start with its number: `[rank3]: `.
# - `recorder`: the flight recorder's traces, as dicts; empty if it was off. `trace["entries"]` are the
#   collectives that the rank has called, in order. Of an entry you need `entry["process_group"]`
#   (number and name), `entry["collective_seq_id"]` (a count in each group), `entry["profiling_name"]`
#   (`gloo:all_reduce`, say) and `entry["retired"]`: False as long as it is not done. With NCCL,
#   `entry["state"]` shows it too: `scheduled`, `started` or `completed`.
#
# A rank that waits at line 52 of `train.py` looks like this:
#
# ```text
# Thread 24764 (idle): "MainThread"
#     all_reduce (torch/distributed/distributed_c10d.py:3252)
#     _exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)
#     average (train.py:52)
#     train (train.py:90)
#     <module> (train.py:119)
# Thread 24950 (idle): "writer"
#     ...
# ```
#
# There are three kinds of jobs:
#
# - **The ranks stand still.** Those that wait stand in one function of `distributed_c10d.py`, called
#   from one line. One rank is somewhere else: it reads, it computes, or it is in another collective.
# - **A rank has raised an error.** Either its main thread is at its end, and the process is kept
#   alive by another thread; or the job has ended, and there is only the log.
# - **The collectives are asynchronous** (`async_op=True`, and all those of NCCL). They return at once,
#   and the ranks wait later, where no stack shows a collective.
#
# `in_stack` and `in_log` are given. They return the frames of a stack, from the innermost one to the
# outermost.
#
# *Before you start: a job of 512 ranks hangs, and 511 of the stacks are the same. Which one do you
# read? And which ranks write an error when the timeout is over?*

# %%
# %%answer find_the_hang
import re
from typing import NamedTuple


class Frame(NamedTuple):
    """A call on a stack: function, file and line, as py-spy or the traceback has them."""

    function: str
    file: str
    line: int


def in_stack(dump: str) -> list[Frame]:
    """The frames of the main thread in a dump of py-spy, innermost first."""
    main = dump.partition('"MainThread"\n')[2].partition("\nThread ")[0]
    found = re.findall(r"^ +(\S+) \((\S+):(\d+)\)$", main, re.MULTILINE)
    return [Frame(function, file, int(line)) for function, file, line in found]


def in_log(log: str, rank: int) -> list[Frame]:
    """The frames of the error with which `rank` ended, innermost first; none if it has not."""
    pattern = rf'^\[rank{rank}\]: +File "(.+)", line (\d+), in (\S+)$'
    found = re.findall(pattern, log, re.MULTILINE)
    return [Frame(function, file, int(line)) for file, line, function in reversed(found)]


def find_the_hang(
    stacks: dict[int, str], log: str, recorder: dict[int, dict]
) -> tuple[int, str, int]:
    """The rank for which the others wait, their call, and the line at which that rank is.

    `call` is the collective in which the others wait, by the name of its function ("all_reduce").
    `line` is the line of train.py at which the rank is that does not come: the innermost one on
    the stack of its main thread, or of its error if that thread has ended.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("find_the_hang")

# %% [markdown]
# **Answer.** Read the one that differs. The error is written by the 511: they wait, and a timeout
# ends a wait. The rank that does not come has no wait that could end, so its log stays silent. Look
# at the stacks before the timeout ends the job, or let the flight recorder write its traces then.

# %% [markdown]
# ## Where next
#
# The next lecture is [07 Hybrid parallelism and model sharding](../notebooks/07_hybrid_parallelism.ipynb); then come its [exercises](07_hybrid_parallelism.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/06_torch_distributed.ipynb) of these exercises.
