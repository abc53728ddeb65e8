# %% [markdown]
# # 05 Horovod: exercises
#
# Horovod makes a serial training script data parallel with a few changed lines, which are nearly the
# same in PyTorch and in Keras. You make both changes here. Then you look at what travels: which
# tensors, when, and in how many bytes.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer on 1, 2, 3 and 4 ranks, with new inputs each time, and reports
# which claims hold. Check as often as you like; a wrong answer costs nothing. *Before you start* is a
# question to think about first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`; in `hvd_compression`
# and `hvd_torch` also `horovod`; in `hvd_keras` also `horovod`, `tensorflow`, `keras` and
# `tf_keras`. Nothing else, and nothing of `hpml`.
#
# Three of the four exercises need Horovod, which `./hpml horovod` builds. Where it is not installed,
# their checks say so and do not judge. `hvd_fusion` needs nothing but Python.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `hvd_torch`: six changes
#
# **Core**, about 12 minutes.
#
# **To write:** the script for all ranks. **Allowed:** anything that an answer may import,
# `DistributedSampler` too.
#
# This is a serial script that trains on CIFAR-10 and can continue where an earlier run has stopped:
#
# ```python
# def train(
#     model: nn.Module,
#     dataset: Dataset,
#     epochs: int,
#     batch_per_rank: int,
#     learning_rate: float,
#     seed: int,
#     path: str,
# ) -> None:
#     optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
#     if os.path.exists(path):
#         state = torch.load(path)
#         model.load_state_dict(state["model"])
#         optimizer.load_state_dict(state["optimizer"])
#     for epoch in range(epochs):
#         draw = torch.Generator().manual_seed(seed + epoch)
#         order = torch.randperm(len(dataset), generator=draw).tolist()
#         for images, labels in DataLoader(dataset, batch_per_rank, sampler=order):
#             loss = functional.cross_entropy(model(images), labels)
#             optimizer.zero_grad()
#             loss.backward()
#             optimizer.step()
#     torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
# ```
#
# Make it one that runs on all ranks, started by `horovodrun` or `mpirun`, or by `srun` where the
# cluster's MPI takes its ranks from SLURM (else each process is rank 0 of 1: section 5 of the lecture):
#
# - **Begin** with `hvd.init()`. After it `hvd.rank()` and `hvd.size()` can be called.
# - **Average the gradients**: `hvd.DistributedOptimizer` takes an optimizer and the model's named
#   parameters, and averages the gradients in each `step()`. It is a new optimizer with the settings of
#   the old one, but without its state: the momentum is not copied.
# - **Start with equal weights.** `model` has different weights on each rank; training starts from rank
#   0's. If rank 0 finds a checkpoint at `path`, all ranks continue from it: the weights and the
#   optimizer's state. The other ranks do not have this file. See `hvd.broadcast_parameters` and
#   `hvd.broadcast_optimizer_state`.
# - **Share the samples.** `batch_per_rank` is the number of samples that each rank takes in a step, so
#   that W ranks together take the next W · `batch_per_rank` samples of the serial script's order. A
#   `DistributedSampler` draws its order from its `seed` plus the epoch in the same way, and gives rank
#   r every W-th sample of it. It asks `torch.distributed` for the rank and the number of ranks, unless
#   you pass them.
# - **Scale the learning rate**: a step has W times the samples, so it is W times as long (the linear
#   scaling rule of Goyal et al., *Accurate, Large Minibatch SGD*, 2017). `learning_rate` is that of
#   one rank. This also holds for a run that continues, however many ranks the earlier run had.
# - **Rank 0 saves**, and no other rank.
#
# On a machine with GPUs one more line follows `hvd.init()`:
# `torch.cuda.set_device(hvd.local_rank())`. The check computes on the CPU.
#
# The check compares the weights after each step with those of one process that has W times the batch
# and W times the learning rate.
#
# The cell is a script as well: saved to a file, `horovodrun -np 2 python hvd_torch.py` trains a small
# model and leaves `checkpoint.pt`.
#
# *Before you start: all ranks have rank 0's weights, but only rank 0 has the checkpoint's momentum.
# After which step do the weights differ? Does averaging the gradients make them equal again?*

# %%
# %%answer hvd_torch
import os

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset


def train(
    model: nn.Module,
    dataset: Dataset,
    epochs: int,
    batch_per_rank: int,
    learning_rate: float,
    seed: int,
    path: str,
) -> None:
    """Train `model` in place, on all ranks; rank 0 writes a checkpoint to `path`.

    `batch_per_rank` is what each rank takes in one step, `learning_rate` that of one rank alone.
    `len(dataset)` is a multiple of `batch_per_rank` times the number of ranks. If rank 0 finds a
    checkpoint at `path`, all ranks continue from it; the others cannot read it.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


if __name__ == "__main__":
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (960,))
    images = torch.randn(10, 3, 8, 8)[labels] + torch.randn(960, 3, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    train(model, TensorDataset(images, labels), 3, 12, 0.01, seed=0, path="checkpoint.pt")

# %%
check("hvd_torch")

# %% [markdown]
# **Answer.** After the first: rank 0's step is longer by the learning rate times 0.9 times its old
# momentum. Averaging does not help. The averaged gradients are the same on all ranks, and equal
# gradients keep a difference of weights as it is.

# %% [markdown]
# ## `hvd_keras`: the same with callbacks
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# **To write:** the script for all ranks. **Allowed:** anything that an answer may import.
#
# In Keras the training loop is inside `fit`, so Horovod comes in through the optimizer and through
# callbacks. This is the serial script:
#
# ```python
# def train(model, x, y, epochs, batch_per_rank, learning_rate):
#     model.compile(
#         optimizer=tf.keras.optimizers.SGD(learning_rate),
#         loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
#         metrics=["accuracy"],
#     )
#     history = model.fit(
#         x, y, batch_size=batch_per_rank, epochs=epochs, shuffle=False, verbose=2
#     )
#     return history.history
# ```
#
# What has to change:
#
# - `hvd.init()`, and each rank takes its share: `batch_per_rank` samples in each step, so that W ranks
#   together take the next W · `batch_per_rank` samples of `x`. Keep `shuffle=False`: the check needs
#   the order.
# - The optimizer becomes a `hvd.DistributedOptimizer`, with W times the learning rate.
# - `hvd.callbacks.BroadcastGlobalVariablesCallback(0)` sends rank 0's variables to all other ranks at
#   the end of the first batch. Before that the optimizer has no variables yet.
# - `hvd.callbacks.MetricAverageCallback()` replaces each metric by its mean over the ranks at the end
#   of an epoch. Callbacks that read metrics come after it in the list.
# - `hvd.callbacks.LearningRateWarmupCallback` raises the rate, step by step, from that of one rank to
#   that of all ranks, during `warmup_epochs`. Its `initial_lr` is the rate at the end. Pass
#   `momentum_correction=False`: plain SGD has no momentum to correct, and in these versions of Keras
#   a callback cannot set it.
# - Rank 0 prints its progress, and no other rank.
#
# With GPUs, each rank takes the one with its local rank as number:
# `tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")`.
#
# Horovod 0.28 was written for Keras 2. In TensorFlow from 2.16 on `tf.keras` is Keras 3, whose
# optimizers Horovod's callbacks do not know; with `TF_USE_LEGACY_KERAS=1` in the environment before
# TensorFlow is imported, it is Keras 2 again, from the package `tf_keras`. The ranks of the check
# have it set; your own scripts and jobs must set it themselves.
#
# *Before you start: without the average of the metrics, Keras reports an accuracy of 0.61 on rank 0,
# and 0.59 on rank 1. Which figure do you report? Would you notice if rank 0 printed its own?*

# %%
# %%answer hvd_keras
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf


def train(
    model: tf.keras.Model,
    x: np.ndarray,
    y: np.ndarray,
    epochs: int,
    batch_per_rank: int,
    learning_rate: float,
    warmup_epochs: int,
) -> dict[str, list[float]]:
    """Train `model` in place, on all ranks; loss and accuracy of each epoch, over all ranks.

    `batch_per_rank` is what each rank takes in one step, `learning_rate` that of one rank alone;
    it rises to that of all ranks in `warmup_epochs`. `len(x)` is a multiple of `batch_per_rank` times
    the number of ranks. Rank 0 prints its progress, as the serial script does.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("hvd_keras")

# %% [markdown]
# **Answer.** 0.60, the mean over all samples: both ranks have equally many. You would not notice:
# 0.61 looks just as good.

# %% [markdown]
# ## `hvd_fusion`: what the timeline shows
#
# **More**, about 30 minutes: after the core exercises, or at home.
#
# **To write:** the reader of the timeline. **Allowed:** anything that an answer may import.
#
# With `HOROVOD_TIMELINE=timeline.json` in the environment, rank 0 records what happens to each
# tensor, as a list of events in the JSON format of Chrome's tracing:
#
# ```json
# [
# {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "allreduce.head.bias"}},
# {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 5872, "pid": 1},
# {"ph": "X", "name": "1", "ts": 5874, "pid": 1, "dur": 0},
# {"ph": "X", "name": "0", "ts": 6797, "pid": 1, "dur": 0},
# {"ph": "E", "ts": 6799, "pid": 1},
# {"ph": "B", "name": "ALLREDUCE", "ts": 6800, "pid": 1},
# {"ph": "B", "name": "MEMCPY_IN_FUSION_BUFFER", "ts": 6878, "pid": 1},
# {"ph": "E", "ts": 6887, "pid": 1},
# {"ph": "B", "name": "GLOO_ALLREDUCE", "ts": 6889, "pid": 1},
# {"ph": "E", "ts": 7124, "pid": 1},
# {"ph": "B", "name": "MEMCPY_OUT_FUSION_BUFFER", "ts": 7125, "pid": 1},
# {"ph": "E", "ts": 7152, "pid": 1},
# {"ph": "E", "ts": 7155, "pid": 1, "args": {"dtype": "float32", "shape": "[6491]"}}
# ]
# ```
#
# Each tensor is a process of its own in this trace; `pid` is its number. `M` events are
# metadata: those called `process_name` name the tensor of a `pid` in their `args`. Others do not:
# there are further kinds of metadata, and the `process_name` of `pid` 0, which is not a tensor, has
# no `name` in its `args`. `B` begins a phase, `E` ends the one that began last under its `pid`, `X`
# and `i` are moments (an `i` has no `pid`), `ts` is in microseconds. The phases of one tensor in
# one step:
#
# | phase | what happens |
# |---|---|
# | `NEGOTIATE_ALLREDUCE` | not all ranks have submitted the tensor; an `X` names each that has |
# | `ALLREDUCE` | all that follows, to the end |
# | `WAIT_FOR_DATA`, `INIT_FUSION_BUFFER` | waiting for the device; making the fusion buffer, once |
# | `MEMCPY_IN_FUSION_BUFFER` | several tensors are copied into one buffer, to be one message |
# | `GLOO_ALLREDUCE`, `MPI_ALLREDUCE`, `NCCL_ALLREDUCE` | the message travels, by that library |
# | `MEMCPY_OUT_FUSION_BUFFER` | the results are copied back |
#
# For the broadcast of the weights, the phases are called `NEGOTIATE_BROADCAST`, `BROADCAST`,
# `GLOO_BCAST`. Tensors that go in one message travel under each of their names at the same time;
# messages go one after the other. A tensor alone in its message needs no copies.
#
# Write `read_timeline(text)`. It returns which collectives there were and which tensors were in each,
# how long ranks negotiated, and how long data travelled. A job that was killed leaves a file that
# stops at any place, perhaps in the middle of a word.
#
# *Before you start: rank 1 is late by 20 ms in each step. Which of the phases grows? Is the network
# the reason?*

# %%
# %%answer hvd_fusion
import json
from collections import defaultdict


def read_timeline(text: str) -> dict[str, list[list[str]] | float]:
    """What a Horovod timeline shows. Returns

    - `collectives`: for each one that travelled, in order, the names of the tensors in it
    - `negotiated`: seconds in which at least one tensor was being negotiated
    - `transferred`: seconds in which data of at least one tensor travelled

    `text` is the file's content. It may stop anywhere; phases that had not ended by then are in
    none of the figures.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("hvd_fusion")

# %% [markdown]
# **Answer.** `NEGOTIATE_ALLREDUCE`, by 20 ms for the first tensors: rank 0 has submitted them and
# waits for rank 1. No data travels in that time, so the network is not the reason.

# %% [markdown]
# ## `hvd_compression`: half of the bytes
#
# **More**, about 20 minutes: after the core exercises, or at home.
#
# **To write:** the compressor and the mean. **Not allowed:** `hvd.Compression.fp16`. **Allowed:**
# everything else that an answer may import.
#
# The gradient of a batch is noisy, so its last digits mean little, but they cost as many bytes as
# the first ones. Half precision, with about three decimal digits, is often enough for training. In
# Horovod a *compressor* decides what travels instead of a gradient. It is a class with two static
# methods.
#
# - `compress(tensor)` returns the tensor that travels, and a context: what `decompress` will need.
# - `decompress(tensor, context)` converts the tensor that has travelled to what the optimizer expects:
#   the type that the gradient had before.
#
# Write `Half`, a compressor to `float16`, for `hvd.DistributedOptimizer(..., compression=Half)`. It
# leaves tensors of integers as they are.
#
# Then write `average(tensor, name)`, the mean of a floating-point tensor over the ranks, through
# `Half`. Half precision has a range as well as a precision: its largest number is 65504. The ranks'
# values are within it, and so is their mean.
#
# Horovod matches the ranks' tensors by `name`. One that is sent without a name is called
# `allreduce.noname.` and the number of the call. That is right here, because all ranks call in the
# same order. Where they do not, different tensors of one shape are averaged without an error.
#
# The check looks at the dtype of what is sent, in the recorded calls; at the bytes on a link of
# 1 Gbit/s, counted by the kernel, which must be half as many; at the mean, as exact as half precision
# allows; and at training, which must end where it does without compression.
#
# *Before you start: four ranks average the value 30000. Which sum does Horovod make, and what is it
# in half precision?*

# %%
# %%answer hvd_compression
import horovod.torch as hvd
import torch


class Half:
    """A compressor for Horovod: half precision travels."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """The tensor in half precision, if it is one of floating point, and a context."""
        # YOUR CODE HERE
        raise NotImplementedError()

    @staticmethod
    def decompress(tensor: torch.Tensor, context: torch.dtype) -> torch.Tensor:
        """The tensor as it was before `compress`, which gave this context."""
        # YOUR CODE HERE
        raise NotImplementedError()


def average(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The mean of all ranks' tensors of this name, in their own type; half precision travels.

    Each rank's values are within the range of half precision, and so is their mean.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("hvd_compression")

# %% [markdown]
# **Answer.** The sum is 120,000. Half precision ends at 65,504, so the sum is infinite, and so is a
# quarter of it. Divided first, each rank sends 7,500, and the sum is the mean.

# %% [markdown]
# ## Where next
#
# The next lecture is [06 Data parallel CIFAR-10 with torch.distributed](../notebooks/06_torch_distributed.ipynb); then come its [exercises](06_torch_distributed.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/05_horovod.ipynb) of these exercises.
