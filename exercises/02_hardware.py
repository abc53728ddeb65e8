# %% [markdown]
# # 02 Hardware and its bottlenecks: exercises
#
# In these exercises you count what hardware is asked for (operations, bytes, files, messages, cores)
# and write the parts of a training program that ask for less, or ask earlier.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer on several numbers of ranks, with new inputs each time, and
# reports which claims hold. Check as often as you like; a wrong answer costs nothing. *Before you
# start* is a question to think about first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `roofline`: what a layer asks for, and which roof binds
#
# **Core**, about 12 minutes.
#
# **To write:** FLOP and bytes of three kinds of layers, and the time that a machine needs at least.
# **Not allowed:** `FlopCounterMode`, `torch.profiler`. **Allowed:** everything else that an answer
# may import.
#
# Three functions count what a layer asks of a machine. Each returns `(FLOP, bytes)`:
#
# - **FLOP**: a multiplication and an addition are two, and a sum of k products is k of each. So
#   count vendors, and PyTorch.
# - **Bytes**, at least: each input, each weight and each output moves once, as large as the numbers
#   of this `dtype` are (`dtype.itemsize`).
# - `matmul`: a matrix [m, k] times a matrix [k, n].
# - `conv2d`: `shape` is the input's, [batch, channels, height, width]. `kernel`, `stride` and
#   `padding` are pairs, for height and width; `padding` is added on both sides. With `groups`, each
#   output channel sees only the input channels of its group. There is no bias.
# - `elementwise`: `inputs` tensors of one `shape` make an output of that shape. Each of its numbers
#   takes `operations` FLOP. A copy takes none.
#
# The fourth, `roofline`, says how long that takes at least. A `machine` has two kinds of units, which
# compute (FLOP/s), and one or more levels of memory, which move bytes (bytes/s):
# `{"matrix": 9e13, "vector": 1e13, "L2": 4e12, "memory": 9e11}`. The layer runs on `unit`;
# `traffic` has the bytes that go through each level, `{"L2": 5e9, "memory": 1e9}`. All of them work
# at the same time, and the layer is ready when the last one is: each is a *roof*.
#
# *Before you start: a matrix of 4096 × 4096 float16 numbers multiplies a vector. Will twice as many
# FLOP/s make that faster? And if it multiplies 4096 vectors at once?*

# %%
# %%answer roofline
from math import prod

import torch


def matmul(m: int, k: int, n: int, dtype: torch.dtype) -> tuple[int, int]:
    """(FLOP, bytes) of [m, k] × [k, n]."""
    # YOUR CODE HERE
    raise NotImplementedError()


def conv2d(
    shape: tuple[int, int, int, int],
    out_channels: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    groups: int,
    dtype: torch.dtype,
) -> tuple[int, int]:
    """(FLOP, bytes) of a convolution of an input [batch, channels, height, width]."""
    # YOUR CODE HERE
    raise NotImplementedError()


def elementwise(
    shape: tuple[int, ...], inputs: int, operations: int, dtype: torch.dtype
) -> tuple[int, int]:
    """(FLOP, bytes) of a layer that makes one tensor of this shape from `inputs` of them."""
    # YOUR CODE HERE
    raise NotImplementedError()


def roofline(
    flops: int, traffic: dict[str, int], unit: str, machine: dict[str, float]
) -> tuple[float, float, float, str]:
    """Four values: the arithmetic intensity, FLOP for each byte that moves through "memory"; the
    seconds that the layer takes at least; its FLOP/s then; and the name of the roof that binds."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("roofline")

# %% [markdown]
# **Answer.** Times one vector, each number of the matrix is read once and used for two FLOP: one
# FLOP per byte. Every machine of the lecture's table can do 29 or more in the time of one byte from
# its DRAM: the memory binds, and more FLOP/s change nothing. Times 4096 vectors it is
# 2 · 4096 / (3 · 2) = 1365 FLOP per byte: now the unit binds, and twice the FLOP/s halve the time.

# %% [markdown]
# ## `prefetch`: read the next batch while computing on this one
#
# **Core**, about 12 minutes.
#
# **To write:** the iterator and its reader. **Not allowed:** `DataLoader`. **Allowed:** everything
# else that an answer may import, `threading`, `queue` and `concurrent.futures` first of all.
#
# A training loop that reads a batch, computes on it, and reads the next one takes the **sum** of
# both times. While one thread waits for the disk, another could compute: then a step takes the
# **maximum** of the two. That is all that a loader's workers do, and it fits on one screen.
#
# `prefetch(batches, depth)` is used in place of `batches` in a loop, and gives the same batches:
#
# ```python
# for batch in prefetch(batches, depth=2):
#     train(batch)
# ```
#
# - `batches` is any iterable, a generator for example, and may be empty; **one thread at a time**
#   may advance it. What it gives may be anything, `None` too.
# - A thread reads ahead. At most `depth` batches wait for the caller; the reader may hold one more,
#   which has no room yet. With a slow caller it stops there: memory is bounded.
# - The caller gets its first batch as soon as that is there.
# - An `Exception` that `batches` raises reaches the caller: the same object, after the batches that
#   came before it. (`KeyboardInterrupt` is none, and Python raises it in the main thread alone.)
# - When the loop is over, no thread is left: at the end, after an error, and when the caller leaves
#   by `break` or calls `close()`.
#
# A generator function does much of this: when its loop is left, Python closes the generator, and
# what stands in its `finally` runs.
#
# The check stamps from outside when a read and a computation begin and end. It lets each wait for
# the other: no seconds are compared, and a slow machine loses no points.
#
# *Before you start: reading a batch takes 30 ms, computing 50 ms. How long does a step take without
# and with the reader thread? What does a depth of 2 give that a depth of 1 does not, and when?*

# %%
# %%answer prefetch
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any


def prefetch(batches: Iterable[Any], depth: int) -> Iterator[Any]:
    """The batches of `batches`, in order, read ahead by a thread.

    At most `depth` (at least 1) of them wait, and one more is in the reader's hands. Raises what
    `batches` raises, in its place. The thread ends with the iterator.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("prefetch")

# %% [markdown]
# **Answer.** Without the thread a step takes 30 + 50 = 80 ms, with it max(30, 50) = 50 ms. On
# average a depth of 1 is as good as 2. Reading is not even, though: if one file in ten takes 150 ms
# and the others 17, the mean is 30 ms too, and a reader that is some batches ahead hides the slow
# one behind several computations. Where reading takes longer **on average** than computing, no
# depth helps: then several readers do, or a better format of the files (`pack_files`).
#
# The queue between the two is where the rules live: it keeps the order, bounds the memory, and
# carries the end and the error, in their turn. What it does not do is end the thread: that takes a
# reader that looks, when it wakes up, whether anybody is still there.

# %% [markdown]
# ## `memory_budget`: what will training take?
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# **To write:** the bytes of each kind, and the largest batch. **Not allowed:** `backward`,
# `torch.autograd.grad`, `saved_tensors_hooks`, a profiler, `MemTracker`. **Allowed:** everything else
# that an answer may import.
#
# You have asked for a GPU, and you wait for it. Will the training fit, and how large can the batch
# be? `model` is an `nn.Sequential` on the device `"meta"`: it has layers, shapes and dtypes, and no
# memory. `layer(x)` works with an `x` on that device, and its result has the shape and dtype that it
# would have.
#
# `memory_budget(model, shape, optimizer)` returns a dict with the bytes of four kinds. `shape` is that
# of a batch: `(64, 3, 32, 32)`. The batch has the dtype of the parameters. The optimizer is `"sgd"`,
# `"momentum"` (SGD with momentum), or `"adam"`.
#
# - `"weights"`: all parameters and all buffers.
# - `"gradients"`: of each parameter that is trained (`requires_grad`). The training keeps them from
#   step to step.
# - `"optimizer states"`: what `torch.optim` keeps of each parameter that is trained, but for Adam's
#   counters of steps, which have 4 bytes each.
# - `"activations"`: the batch, and every tensor that `backward` will need. A tensor that two layers
#   need is in memory once. In front of the first trained layer nothing is needed; behind it no layer
#   is frozen here. What the last layer puts out is for the loss: count it or leave it out.
#
# | layer | its backward needs |
# |---|---|
# | `Conv2d`, `Linear`, `BatchNorm2d`, `GELU` | what came in |
# | `ReLU` | what it put out; with `inplace=True` that lies where its input was |
# | `MaxPool2d` | what came in, and an int64 for each element of what it put out |
# | `Flatten` | nothing; what it puts out is the same memory as what came in |
#
# `largest_batch(model, sample, optimizer, memory)` returns how many samples of that shape,
# `(3, 32, 32)`, fit into so many bytes: an int, 0 where not even one fits.
#
# The check trains three networks that it draws anew each time, and compares your figures with what
# existed then, and their sum with the peak of PyTorch's allocator.
#
# *Before you start: a convolution, batch normalisation and a ReLU, all with outputs of 1 MB. How many
# MB do they keep for backward, besides what came in first? And with the ReLU in place?*

# %%
# %%answer memory_budget
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def memory_budget(model: nn.Sequential, shape: tuple[int, ...], optimizer: str) -> dict[str, int]:
    """The bytes of "weights", "gradients", "optimizer states" and "activations" in training
    `model` with batches of this shape; `optimizer` is "sgd", "momentum" or "adam"."""
    # YOUR CODE HERE
    raise NotImplementedError()


def largest_batch(
    model: nn.Sequential, sample: tuple[int, ...], optimizer: str, memory: int
) -> int:
    """How many samples of this shape fit into `memory` bytes; 0 where not even one does."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("memory_budget")

# %% [markdown]
# **Answer.** 2 MB, either way: what the convolution put out, for batch normalisation, and what the
# ReLU put out, which the next layer needs, too. Nobody needs what batch normalisation put out. So an
# in-place ReLU saves nothing that is *kept*; it saves 1 MB for a moment, while it runs. In place of a
# convolution and a GELU both outputs are kept: a GELU needs its input, and the next layer its output.

# %% [markdown]
# ## `pack_files`: many files in one
#
# **More**, about 25 minutes: after the core exercises, or at home.
#
# **To write:** the format, `pack` and `Packed`. **Not allowed:** `zipfile`, `tarfile`. **Allowed:**
# everything else that an answer may import, `struct`, `json`, `os.pread` and `mmap` among it.
#
# A file system has a price for each file, and not only for each byte: a name is looked up, a lock
# taken, and on a cluster a metadata server asked, which all nodes share. A million images are a
# million such requests in each epoch, whatever the disks can do. One packed file with an **index**
# takes one request and then reads bytes. You write such a format, and the `Dataset` that reads it.
#
# - `pack(folder, target)` writes all files below `folder` into the one file `target`: those of all
#   folders in it too, and those whose names begin with a dot. A sample's name is its path within
#   `folder`, with `/`: `"cat/0007.png"`. Its folder is its label, so names count. Samples are in
#   the order of `sorted(names)`.
# - `Packed(path)` is the data set. `len(packed)` is the number of samples, and `packed[i]` is the
#   pair `(name, content)`, str and bytes.
#
# What the check looks at, beyond the values:
#
# - Names have blanks, commas, quotes and letters of several alphabets. Some files are empty, some
#   are a hundred times as large as others.
# - The **kernel** counts. Opening may read the index, and no content; a sample reads its own bytes
#   (and up to 16 KiB more, for a buffer); the file stays open, it is not opened for each sample.
# - A `DataLoader` hands its data set to worker processes, by fork or by pickle. They read at the
#   same time.
# - A pack that is cut off, or a file that is not a pack, is refused when it is opened: with a
#   `ValueError` whose message has the file's name.
# - `pack` may be killed at any moment: what is at `target` is then the old pack or the new one.
#
# The format is yours. It may be as simple as this: some bytes that mark it, the length of the
# index, the index, and then the contents, one after the other.
#
# *Before you start: 1 281 167 images of 110 KB, a metadata server that serves 20 000 opens per
# second for everybody, and storage of 10 GB/s. How long does an epoch's input take at least, from
# files and from a pack? And why does a text index with one line per file fail in practice?*

# %%
# %%answer pack_files
import itertools
import json
import os
import struct
from pathlib import Path

from torch.utils.data import Dataset

MARK = b"PACKED.1"  # the first bytes of a pack, and of no other file


def pack(folder: str, target: str) -> None:
    """Write all files below `folder` into the one file `target`, which is whole at every moment.

    Sample i is the i-th of the sorted names, paths within `folder` with "/".
    """
    # YOUR CODE HERE
    raise NotImplementedError()


class Packed(Dataset):
    """The samples of a pack: (name, content), str and bytes. Raises ValueError, with the file's
    name in it, where `path` is not a pack or is cut off."""

    def __init__(self, path: str) -> None:
        # YOUR CODE HERE
        raise NotImplementedError()

    def __len__(self) -> int:
        # YOUR CODE HERE
        raise NotImplementedError()

    def __getitem__(self, index: int) -> tuple[str, bytes]:
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("pack_files")

# %% [markdown]
# **Answer.** 141 GB at 10 GB/s take 14 s. 1.28 million opens at 20 000 per second take 64 s, and
# during that minute nobody else on the cluster opens anything. A text index with one line per file
# works until the first name with a blank, a tab or a line feed in it; lengths or a format that
# quotes (JSON) do not care.
#
# `os.pread` says where it reads, so that processes and threads cannot move each other's position.
# What is pickled is the path alone: each worker opens its own file. The size that follows from the
# index tells a whole pack from one that is cut off, without reading it. WebDataset's tar files,
# TFRecord, HDF5 and LMDB are answers to the same questions.

# %% [markdown]
# ## `fusion_buffer`: few large messages
#
# **More**, about 20 minutes: after the core exercises, or at home.
#
# **To write:** the buffers, the messages and the way back. **Not allowed:** `DistributedDataParallel`
# and its like (`fully_shard`, `replicate`), calls that join tensors (`all_reduce_coalesced`,
# `_coalescing_manager`). **Allowed:** everything else that an answer may import.
#
# A model has hundreds of parameters, and most of them are small: biases, norms, scales. Each message
# costs its latency, however few bytes it carries (section 8). Horovod therefore copies small
# gradients into a *fusion buffer*, averages the buffer with one all-reduce, and copies the means back
# (tensor fusion: Sergeev and Del Balso, *Horovod*, 2018, section 7). Here you write that buffer.
#
# `average(gradients, buffer_bytes)` is given the gradients one after the other, in the order in which
# backward makes them. `gradients` is an iterator: the next gradient is made when you ask for it.
# All ranks get gradients of the same shapes and dtypes in the same order.
#
# - **The mean, in place.** Afterwards each gradient is its mean over the ranks. It is the same tensor
#   as before, in the same memory. It may have strides (a transpose, every other column): what lies
#   between its elements does not change.
# - **One buffer for each dtype.** Gradients of different dtypes never share a message, and none is
#   cast to another dtype. The buffers of all dtypes are open at the same time.
# - **What fits.** A buffer has room for `buffer_bytes`. A gradient that does not fit into the rest has
#   the buffer sent, and is the first in the next one. A gradient that takes exactly the rest fits.
# - **What is too large.** A gradient that is larger than `buffer_bytes` leaves at once, as a message
#   of its own. The gradients that wait in the buffer of its dtype go on waiting.
# - **The end.** When the gradients end, each buffer with something in it is sent. A gradient may be
#   empty (no elements), and there may be no gradients at all: for nothing, nothing is sent.
# - **No needless wait.** A buffer that is full to the last byte leaves before you take the next
#   gradient, and you wait for no message before all have left. One message is one `all_reduce`.
#
# DDP's buckets (exercise `ddp` in module 06) are made once, from the parameters, and hooks fill them.
# This buffer knows nothing of a model: it takes what comes.
#
# *Before you start: a model has 160 gradients of 4 kB, and an all-reduce takes 50 µs plus 1 µs for
# each kB. How long do 160 messages take, and how long do ten of 64 kB? When does a larger buffer stop
# helping?*

# %%
# %%answer fusion_buffer
from collections.abc import Iterable

import torch
import torch.distributed as dist


def average(gradients: Iterable[torch.Tensor], buffer_bytes: int) -> None:
    """Replace each gradient by its mean over all ranks, with one all-reduce for each buffer.

    `gradients`: tensors of floating dtypes, made when they are taken. `buffer_bytes`: the room in
    a buffer. Gradients share a buffer with others of their dtype, in their order, as long as they
    fit; a larger one is a message of its own.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("fusion_buffer")


# %% [markdown]
# **Answer.** 160 messages take 160 · (50 + 4) µs = 8.6 ms, ten take 10 · (50 + 64) µs = 1.1 ms: the
# bytes are the same, and 150 latencies are gone. With buffers of 640 kB it is 0.7 ms, but that one
# message leaves only when the last gradient is there: nothing of it hides behind backward. Horovod's
# threshold is 128 MB (`HOROVOD_FUSION_THRESHOLD`), PyTorch's buckets have 25 MB.

# %% [markdown]
# ## `binding_plan`: a core for every thread, and every rank at home
#
# **More**, about 25 minutes: after the core exercises, or at home.
#
# **To write:** each rank's CPUs, and the options of `srun` for them. **Allowed:** anything that an
# answer may import.
#
# `binding_plan(cpus, ranks, gpus, reserved)` deals out the cores of a node to its ranks. `cpus`
# describes the node as `lscpu --extended` does, a dict for each CPU (each hardware thread, that is).
# Of a node with 2 sockets of 4 cores, 2 hardware threads each, some of the 16 rows:
#
# ```
# {"cpu": 0, "core": 0, "socket": 0, "numa": 0}      {"cpu": 8,  "core": 0, "socket": 0, "numa": 0}
# {"cpu": 5, "core": 5, "socket": 1, "numa": 1}      {"cpu": 13, "core": 5, "socket": 1, "numa": 1}
# ```
#
# It returns a list with a list of CPUs for each rank, such that
#
# - no two ranks share a core, and a rank has **one CPU of each of its cores**;
# - a core stays free if one of its CPUs is in `reserved`: the system has it;
# - if `gpus` is not empty, `gpus[r]` is the NUMA node of GPU `r`, and rank `r` runs in that node.
#   Else every NUMA node has the same number of ranks; if the ranks do not divide evenly among them,
#   every socket has; and if they do not divide among these either, a rank may run anywhere;
# - all ranks have **the same number of cores**, as many as there can be.
#
# `srun_options(plan)` returns the options of `srun` as a list of str, for a job that has whole nodes
# (`#SBATCH --exclusive`): the ranks of each node, a mask of CPUs for each rank
# (`--cpu-bind=mask_cpu:...`, in which bit k is CPU k), and with `--export` an `OMP_NUM_THREADS` that
# fits. A step that asks for CPUs of its own (`--cpus-per-task`, `--exclusive`) gets just these,
# chosen by SLURM, and a mask with others is refused.
#
# *Before you start: a node has 2 × 64 cores with 2 hardware threads each, one NUMA node per socket,
# and CPU 0 is reserved. How many cores has each of 4 ranks?*

# %%
# %%answer binding_plan
def binding_plan(cpus, ranks, gpus=(), reserved=()):
    """The CPUs of each rank: one of each of its cores, near each other and near its GPU."""
    # YOUR CODE HERE
    raise NotImplementedError()


def srun_options(plan):
    """The options of srun with which the ranks of each node run on the CPUs of the plan."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("binding_plan")

# %% [markdown]
# **Answer.** 31. NUMA node 0 has 63 free cores for two ranks; a rank that has 32 of them, or
# of the other node's 64, waits in every step for the rank that has 31. The other node's two spare
# cores stay idle, and so does one of NUMA node 0. `slurm/02_binding.slurm` runs a plan on a cluster
# and prints what became of it.

# %% [markdown]
# ## `mixed_precision`: half the bits, the same accuracy
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# **To write:** the loss, the step and the loss scale. **Not allowed:** `torch.autocast` and
# `GradScaler`. **Allowed:** everything else that an answer may import.
#
# A processor with units for bfloat16 multiplies matrices several times faster than in float32, and
# half the bytes travel from memory (section 4). A training that is all in bfloat16 stops learning too
# early. *Mixed precision* (Micikevicius et al., *Mixed Precision Training*, ICLR 2018, section 3)
# keeps the accuracy: products in 16 bits, everything that is added up or changes little in float32.
#
# **Part 1: bfloat16.** The network, in float32:
#
# ```python
# h = x @ weights["w1"]
# h = functional.layer_norm(h, h.shape[1:], weight=weights["gain"]).relu()
# logits = h @ weights["w2"] + weights["bias"]
# loss = functional.cross_entropy(logits, y)
# ```
#
# - `loss(weights, x, y)` is the same loss with both **products in bfloat16**, forward and backward.
#   All else is in **float32**: the norm, the bias, the softmax, the mean, and the gradients of the
#   weights. (ReLU rounds nothing: it may have either dtype.)
# - `Trainer(weights, learning_rate)` takes steps of plain SGD. `step(x, y)` returns the loss before
#   the step. `trainer.weights` are the **master weights**, float32, by name.
#
# **Part 2: float16.** It has fewer exponent bits: gradients below 3e-8 are zero, and what is above
# 65504 is inf. So the loss is multiplied by a large *scale* before backward, and all gradients come
# out that much larger. `LossScale(scale, growth_interval)` finds the scale by trying.
#
# - `step(weights, gradients, learning_rate, max_norm)` is given float32 weights and float16 gradients
#   of `scale` times the loss. It undoes the scale in float32, clips the gradients to `max_norm` (one
#   factor for all, by the norm over all of them) and takes a step of SGD: the dict `weights`
#   has the new ones afterwards. It returns `True`.
# - If any gradient has inf or NaN in it, **no** weight changes, the scale is halved, and `step`
#   returns `False`.
# - After `growth_interval` good steps in a row the scale is doubled, and counting begins anew.
#
# Once you have written it: `torch.autocast` casts operator by operator, from a list like the one in
# part 1, and `torch.amp.GradScaler` keeps the scale as in part 2.
#
# *Before you start: bfloat16 has 8 significant bits. A weight is 0.3, and each step subtracts 0.0005.
# What is it after 100 steps in float32, and what in bfloat16?*

# %%
# %%answer mixed_precision
import torch
from torch.nn import functional

Weights = dict[str, torch.Tensor]


def loss(weights: Weights, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy, a float32 scalar with its graph; products in bfloat16.

    `weights`: float32, by name. `x`: float32 (N, features), `y`: int64 (N,).
    """
    # YOUR CODE HERE
    raise NotImplementedError()


class Trainer:
    """Plain SGD on float32 master weights, which are in `weights`. It may change those it is
    given."""

    def __init__(self, weights: Weights, learning_rate: float) -> None:
        # YOUR CODE HERE
        raise NotImplementedError()

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Take a step; returns the loss before it."""
        # YOUR CODE HERE
        raise NotImplementedError()


class LossScale:
    """The factor of the loss in float16, in `scale`."""

    def __init__(self, scale: float, growth_interval: int) -> None:
        self.scale, self.growth_interval = scale, growth_interval
        self.good_steps = 0

    def step(
        self, weights: Weights, gradients: Weights, learning_rate: float, max_norm: float
    ) -> bool:
        """Take a step with the float16 gradients of scale × loss, unless they overflowed.

        Returns whether the step was taken.
        """
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("mixed_precision")

# %% [markdown]
# **Answer.** In float32 it is 0.25. In bfloat16 it stays where it was, near 0.3:
# between 0.25 and 0.5 the numbers are 0.25 / 128 = 0.00195 apart, and a change of less than half of
# that is rounded away.

# %% [markdown]
# ## Where next
#
# The next lecture is [03 Profiling with TensorBoard](../notebooks/03_profiling.ipynb); then come its [exercises](03_profiling.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/02_hardware.ipynb) of these exercises.
