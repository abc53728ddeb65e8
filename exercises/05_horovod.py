# %% [markdown]
# # 05 Horovod: exercises
#
# Horovod makes a serial training script data parallel with a handful of changed lines, and they are
# the same lines in PyTorch and in Keras. You make both changes here, then look below the surface:
# what really travels, when, and how many bytes of it are needed.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. An answer is
# a small module of its own: it brings its own imports and sees nothing of the other cells. The check
# runs it on 1, 2, 3 and 4 ranks with fresh inputs each time and says which claims hold. Check as
# often as you like; a wrong answer costs nothing.
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
# This is a serial script that trains on CIFAR-10 and can carry on where an earlier run has stopped:
#
# ```python
# def train(
#     model: nn.Module,
#     dataset: Dataset,
#     epochs: int,
#     batch_size: int,
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
#         for images, labels in DataLoader(dataset, batch_size, sampler=order):
#             loss = functional.cross_entropy(model(images), labels)
#             optimizer.zero_grad()
#             loss.backward()
#             optimizer.step()
#     torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
# ```
#
# Make it one that runs on all ranks, started by `horovodrun`, `mpirun` or `srun`:
#
# - **Begin** with `hvd.init()`. From then on `hvd.rank()` and `hvd.size()` say who this is.
# - **Average the gradients**: `hvd.DistributedOptimizer` takes an optimizer and the model's named
#   parameters, and does so in each `step()`. It is a new optimizer with the old one's settings; what
#   the old one has remembered, its momentum, does not come along.
# - **Start alike.** `model` arrives with other weights on each rank; rank 0's count. Where rank 0
#   finds a checkpoint at `path`, all carry on from that: the weights and the optimizer's state. On
#   the other ranks there is no such file. See `hvd.broadcast_parameters` and
#   `hvd.broadcast_optimizer_state`.
# - **Share the samples.** `batch_size` is what each rank takes in a step, so that W ranks together
#   take the next W · `batch_size` samples of the serial script's order. A `DistributedSampler` draws
#   its order from its `seed` plus the epoch in just this way, and deals it out in turn. It asks
#   `torch.distributed` for rank and number of ranks, unless it is told.
# - **Scale the learning rate**: a step has W times the samples, so it is W times as long (the linear
#   scaling rule of Goyal et al., *Accurate, Large Minibatch SGD*, 2017). `learning_rate` is one
#   rank's. That holds for a run that carries on as well, however many ranks the earlier one had.
# - **Rank 0 saves**, and nobody else.
#
# On a machine with GPUs one more line goes after `hvd.init()`:
# `torch.cuda.set_device(hvd.local_rank())`. The check computes on the CPU.
#
# Held to: step by step the weights of one process with W times the batch and W times the learning
# rate.
#
# The cell is a script as well: saved to a file, `horovodrun -np 2 python hvd_torch.py` trains a small
# model and leaves `checkpoint.pt`.
#
# *Before you start: all ranks have rank 0's weights, and only rank 0 has the checkpoint's momentum.
# After which step do the weights differ, and does averaging the gradients bring them together again?*

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
    batch_size: int,
    learning_rate: float,
    seed: int,
    path: str,
) -> None:
    """Train `model` in place, on all ranks, and have rank 0 write a checkpoint to `path`.

    `batch_size` is what each rank takes in one step, `learning_rate` that of one rank alone.
    `len(dataset)` is a multiple of `batch_size` times the number of ranks. Where rank 0 finds a
    checkpoint at `path` all ranks carry on from it; the others cannot read it.
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
# ## `hvd_keras`: the same with callbacks
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# **To write:** the script for all ranks. **Allowed:** anything that an answer may import.
#
# Keras owns the training loop, so Horovod comes in through the optimizer and through callbacks. This
# is the serial script:
#
# ```python
# def train(model, x, y, epochs, batch_size, learning_rate):
#     model.compile(
#         optimizer=tf.keras.optimizers.SGD(learning_rate),
#         loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
#         metrics=["accuracy"],
#     )
#     history = model.fit(
#         x, y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=2
#     )
#     return history.history
# ```
#
# What has to change:
#
# - `hvd.init()`, and each rank takes its share: in step k the ranks together take the next
#   W · `batch_size` samples of `x`. Leave `shuffle=False`, so that the check can tell.
# - The optimizer becomes a `hvd.DistributedOptimizer`, with W times the learning rate.
# - `hvd.callbacks.BroadcastGlobalVariablesCallback(0)` sends rank 0's variables to all others at the
#   end of the first batch: before it, optimizers have made no variables yet.
# - `hvd.callbacks.MetricAverageCallback()` replaces each metric by its mean over the ranks at the end
#   of an epoch. Callbacks that read metrics come after it in the list.
# - `hvd.callbacks.LearningRateWarmupCallback` lets the rate rise, step by step, from one rank's to
#   that of all ranks in the course of `warmup_epochs`. Its `initial_lr` is the rate that it ends with.
#   It would correct the optimizer's momentum with the rate, which plain SGD does not have, and which
#   in these versions of Keras is a number that no callback can set: `momentum_correction=False`.
# - Rank 0 prints its progress, and nobody else.
#
# With GPUs, each rank takes the one of its number:
# `tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")`.
#
# Horovod 0.28 was written for Keras 2. In TensorFlow from 2.16 on `tf.keras` is Keras 3, whose
# optimizers Horovod's callbacks do not know; with `TF_USE_LEGACY_KERAS=1` in the environment before
# TensorFlow is imported, it is Keras 2 again, from the package `tf_keras`. The ranks of the check
# have it set; your own scripts and jobs must set it themselves.
#
# *Before you start: Keras reports an accuracy of 0.61 on rank 0, and 0.59 on rank 1. Which figure
# belongs in the paper, and would anybody notice if rank 0 printed its own?*

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
    batch_size: int,
    learning_rate: float,
    warmup_epochs: int,
) -> dict[str, list[float]]:
    """Train `model` in place, on all ranks; loss and accuracy of each epoch, over all ranks.

    `batch_size` is what each rank takes in one step, `learning_rate` that of one rank alone;
    it rises to that of all ranks in `warmup_epochs`. `len(x)` is a multiple of `batch_size` times
    the number of ranks. Rank 0 prints its progress, as the serial script does.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("hvd_keras")

# %% [markdown]
# ## `hvd_fusion`: what the timeline tells
#
# **More**, about 30 minutes: after the core exercises, or at home.
#
# **To write:** the reader of the timeline. **Allowed:** anything that an answer may import.
#
# With `HOROVOD_TIMELINE=timeline.json` in the environment, rank 0 writes down what happens to each
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
# Each tensor is a process of its own in this trace; its `pid` stands for its name. `M` events are
# metadata: those called `process_name` name the tensor of a `pid` in their `args`. Others do not:
# there are further kinds of metadata, and the `process_name` of `pid` 0, which is no tensor, has no
# `name` in its `args`. `B` begins a phase, `E` ends the one that began last under its `pid`, `X` and
# `i` are moments (an `i` has no `pid`), `ts` is in microseconds. The phases of one tensor in one
# step:
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
# Write `read_timeline(text)`: which collectives there were and what was in each, how long ranks
# negotiated, and how long data travelled. A job that was killed leaves a file that stops somewhere,
# perhaps in the middle of a word.
#
# *Before you start: rank 1 is late by 20 ms in each step. Which of the phases grows, and is the
# network to blame?*

# %%
# %%answer hvd_fusion
import json
from collections import defaultdict


def read_timeline(text: str) -> dict[str, list[list[str]] | float]:
    """What a Horovod timeline tells. Returns

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
# ## `hvd_compression`: half of the bytes
#
# **More**, about 20 minutes: after the core exercises, or at home.
#
# **To write:** the compressor and the mean. **Not allowed:** `hvd.Compression.fp16`. **Allowed:**
# everything else that an answer may import.
#
# Gradients are noise around a direction. Their sixth digit costs as much on the wire as their first,
# and half precision, with three digits, trains as well. Horovod lets you say what travels instead of
# a gradient, with a *compressor*: a class with two static methods.
#
# - `compress(tensor)` returns what is to travel, and a context: whatever `decompress` will need.
# - `decompress(tensor, context)` makes what has travelled into what the optimizer expects: the type
#   that the gradient had before.
#
# Write `Half`, a compressor to `float16`, to be given to
# `hvd.DistributedOptimizer(..., compression=Half)`. Whole numbers are not for it: they stay as they
# are.
#
# Then write `average(tensor, name)`, the mean of a floating-point tensor over the ranks, through
# `Half`. Half precision has a range as well as a precision: its largest number is 65504. The ranks'
# values are within it, and so is their mean.
#
# Held to: the type of what is sent, in the ledger; half the bytes, by the kernel's count on a
# 1 Gbit link; the mean, as exactly as half precision allows; and training that ends where it does
# without compression.
#
# *Before you start: four ranks average the value 30000. What does Horovod add up, and what comes
# out in half precision?*

# %%
# %%answer hvd_compression
import horovod.torch as hvd
import torch


class Half:
    """A compressor as Horovod wants it: what goes over the wire, and back to what it was."""

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
