# %% [markdown]
# # 07 Hybrid parallelism and model sharding: exercises
#
# In these exercises you split a model over ranks: its layers, its tensors, its optimizer's states, its
# parameters, its tokens. What comes out is held against the same model in one process, forward and
# backward, over several steps.
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
# ## `split_layers`: a model on several ranks
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# **To write:** a rank's part of a training step. **Not allowed:** collectives (`all_reduce`,
# `broadcast` and the like), `torch.distributed.pipelining`, `torch.distributed.rpc`. **Allowed:**
# `send`, `recv`, `isend`, `irecv` and `batch_isend_irecv`, and what `torch` does with tensors.
#
# A model that does not fit on one rank is cut between two layers. Rank r has stage r of it: its input
# comes from rank r − 1, its output goes to rank r + 1, and gradients take the same way back. Autograd
# knows one process only. So give backward a place to begin on each rank, and a place to end:
#
# - a tensor that has arrived is not part of any graph: `x.requires_grad_()` before `stage(x)`, and
#   after backward its gradient is `x.grad`;
# - `output.backward(gradient)` begins with a gradient that has arrived.
#
# `train_step` is called on every rank, with
#
# - `stage`: this rank's layers. `stage(x)` is their forward pass;
# - `inputs`: the batch on rank 0, on all others `None`;
# - `targets`: on the last rank, on all others `None`;
# - `loss_function(output, targets)`: the mean loss over the batch's samples;
# - `shape`: on every rank, the shape of what comes into this stage, `(7, 12)` for 7 samples.
#
# All inputs are float64, and messages too. When it returns, each parameter of the stage has in
# `p.grad` the gradient of the loss, as if all layers were in one process. The optimizer's step comes
# afterwards and is not yours. The last rank returns the loss; what the others return does not
# count. Stages are of different depths and widths; with one rank there is one stage and no message.
#
# *Before you start: four ranks have a quarter of the layers each. How many of them compute at the same
# time? How long does a step take, compared with one rank that has all layers?*

# %%
# %%answer split_layers
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn


def train_step(
    stage: nn.Module,
    inputs: torch.Tensor | None,
    targets: torch.Tensor | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    shape: tuple[int, ...],
) -> float | None:
    """This rank's part of a step: forward, then backward.

    Gradients of the mean loss are left in the stage's parameters. Returns the loss on the last rank;
    what the others return does not count.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("split_layers")

# %% [markdown]
# **Answer.** One at a time: while a rank computes, all others wait for what it will send. A step takes
# as long as on one rank, and the messages come on top. What is gained is memory: each rank has a
# quarter of the parameters, of their gradients and of the activations.

# %% [markdown]
# ## `tensor_parallel`: column, then row
#
# **Core**, about 15 minutes.
#
# **To write:** both layers, and what adds up their parts. **Not allowed:** `parallelize_module` and
# `DTensor`. **Allowed:** everything else that an answer may import, `torch.autograd.Function` and
# collectives too.
#
# A layer is too large for one rank, so its weights are split over all ranks, while every rank has the
# whole input and needs the whole output. Two linear layers with a GELU between them, `Y = GELU(X A) B`,
# need one sum for both (Shoeybi et al. 2019, *Megatron-LM*, section 3): cut A by columns and B by rows.
# Each rank computes its own hidden numbers, applies GELU to them, and multiplies them by its rows of
# B. What it has then is one part of a sum.
#
# The weights come from a checkpoint, with the names and shapes of the unsplit layer. `read(name, dim,
# start, stop)` reads the elements from `start` up to `stop` along `dim` and returns a new tensor;
# `read(name)` reads the whole. A rank reads its share only, and keeps it in `nn.Parameter`s.
#
# | | the unsplit layer | rank r has |
# |---|---|---|
# | `ParallelMLP` | `up.weight` [hidden, features], `up.bias` [hidden] | the r-th share of hidden |
# | | `down.weight` [features, hidden], `down.bias` [features] | the same share; the bias whole |
# | `ParallelAttention` | `query.weight`, `key.weight`, `value.weight` [features, features], no bias | the rows of its heads |
# | | `out.weight` [features, features], `out.bias` [features] | the columns of its heads; the bias whole |
#
# - Shares are those of `torch.tensor_split`: 50 hidden numbers on 4 ranks are 13, 13, 12, 12. Heads
#   are shared in the same way, and a head is never cut; head h is rows h·d to (h+1)·d, d = features /
#   heads. There are at least as many heads as ranks.
# - Every rank calls the layer with the same x [batch, tokens, features], float64, and has the whole
#   output. Backward leaves the whole gradient in `x.grad`, and in each parameter what its optimizer
#   needs.
# - **One all-reduce in forward, one in backward**, and no other message.
#
# The MLP is worth 8 points and attention 7. Do the MLP first; what makes its two sums serves both.
#
# *Before you start: forward ends in a sum over the ranks. What is the derivative of that sum for one
# rank's part? And x, which every rank uses: where do the parts of its gradient come from?*

# %%
# %%answer tensor_parallel
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


class SumInBackward(torch.autograd.Function):
    """x as it is; its gradient is the sum of what the ranks send back (Megatron's f)."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        # YOUR CODE HERE
        raise NotImplementedError()


class SumInForward(torch.autograd.Function):
    """The sum of the ranks' parts; and what is each part's gradient (Megatron's g)?"""

    @staticmethod
    def forward(ctx, part):
        # YOUR CODE HERE
        raise NotImplementedError()

    @staticmethod
    def backward(ctx, gradient):
        # YOUR CODE HERE
        raise NotImplementedError()


def my_share(units: int) -> tuple[int, int]:
    """Start and stop of this rank's share of `units`."""
    # YOUR CODE HERE
    raise NotImplementedError()


class ParallelMLP(nn.Module):
    """down(GELU(up(x))), split over all ranks by hidden."""

    def __init__(self, features: int, hidden: int, read: Callable[..., Tensor]) -> None:
        super().__init__()
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, features] to the same shape, whole on every rank."""
        # YOUR CODE HERE
        raise NotImplementedError()


class ParallelAttention(nn.Module):
    """out(softmax(Q Kᵀ / √d) V), split over all ranks by heads; d = features / heads."""

    def __init__(self, features: int, heads: int, read: Callable[..., Tensor]) -> None:
        super().__init__()
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, features] to the same shape, whole on every rank."""
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("tensor_parallel")

# %% [markdown]
# **Answer.** A sum passes its gradient on to each part unchanged: every rank has it already, and
# nothing is sent. x is used by all ranks, and its gradient is the sum of what comes back from each of
# them: an all-reduce. Forward and backward are mirror images, with one message each.

# %% [markdown]
# ## `gpipe`: the bubble gets smaller
#
# **More**, about 20 minutes: after the core exercises, or at home.
#
# **To write:** a rank's part of a training step. **Not allowed:** collectives (`all_reduce`,
# `broadcast` and the like), `torch.distributed.pipelining`, `torch.distributed.rpc`. **Allowed:**
# `send`, `recv`, `isend`, `irecv` and `batch_isend_irecv`, and what `torch` does with tensors.
#
# A batch is cut into m *micro-batches*. While rank 1 computes the first one, rank 0 can compute the
# second: now all ranks have work, except while the pipeline fills and while it drains. That is
# GPipe: all forward passes first, then all backward passes, and the weights change once, at the end
# (Huang et al. 2019, *GPipe: efficient training of giant neural networks using pipeline parallelism*,
# section 2.3). With p stages that take equal time, each rank idles for (p−1)/(m+p−1) of the time.
#
# `train_step` is called on every rank. Rank r has stage r of the model: its input comes from rank
# r − 1, its output goes to rank r + 1. Inputs and messages are float64. It is given
#
# - `stage`: this rank's layers. `stage(x)` is the forward pass of a micro-batch;
# - `inputs`: on rank 0 a list of the micro-batches, on all others `None`;
# - `targets`: on the last rank a list, one tensor for each micro-batch, on all others `None`;
# - `loss_function(output, targets)`: the **mean** loss over a micro-batch's samples;
# - `shapes`: on every rank, the shape with which each micro-batch comes into this stage:
#   `[(3, 12), (3, 12), (2, 12)]` are 8 samples in three micro-batches. The last may be smaller.
#
# When it returns, each parameter of the stage has in `p.grad` the gradient of the mean loss over
# **all samples of the batch**. `p.grad` is `None` when the step begins. The optimizer's step comes
# afterwards and is not yours. The last rank returns that loss; what the others return does not
# count.
#
# Between the ranks there are two messages for each micro-batch at each border: the output forward,
# its gradient back. Autograd knows one process only. So give backward a place to begin, and a place
# to end:
#
# - a tensor that has arrived is not part of any graph: `x.requires_grad_()` before `stage(x)`, and
#   after backward its gradient is `x.grad`;
# - `output.backward(gradient)` begins with a gradient that has arrived.
#
# The check looks at gradients and losses over several steps, with 1 to 4 ranks, stages of different
# depths, and more and fewer micro-batches than ranks; at messages; and at the order in which each
# rank computes: `stage` reports each pass. How long the ranks would idle follows from the order, if a
# backward pass takes twice as long as a forward pass. No time is measured, and any order that idles
# no longer than GPipe's is right.
#
# *Before you start: 4 ranks, 8 micro-batches. The activations of how many micro-batches does rank 0
# keep when the first gradient comes back, and how many does rank 3?*

# %%
# %%answer gpipe
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn


def train_step(
    stage: nn.Module,
    inputs: list[torch.Tensor] | None,
    targets: list[torch.Tensor] | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    shapes: list[tuple[int, ...]],
) -> float | None:
    """This rank's part of a step: all forward passes, then all backward passes.

    Gradients of the batch's mean loss are left in the stage's parameters. Returns the loss on the
    last rank; what the others return does not count.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("gpipe")

# %% [markdown]
# **Answer.** All 8 on rank 0, and all 8 on rank 3 too: backward begins when every forward pass is
# done. More micro-batches make the bubble smaller and cost memory. `one_f_one_b` does something about
# that.

# %% [markdown]
# ## `one_f_one_b`: the same bubble, less memory
#
# **More**, about 25 minutes: after the core exercises, or at home.
#
# **To write:** a rank's part of a training step. **Not allowed:** collectives (`all_reduce`,
# `broadcast` and the like), `torch.distributed.pipelining`, `torch.distributed.rpc`. **Allowed:**
# `send`, `recv`, `isend`, `irecv` and `batch_isend_irecv`, and what `torch` does with tensors.
#
# GPipe keeps the activations of all m micro-batches until the last forward pass is done. But the last
# rank has the first loss after its first forward pass, and could go back at once. That is 1F1B, *one
# forward, one backward* (Narayanan et al. 2021, *Efficient large-scale language model training on GPU
# clusters using Megatron-LM*, section 2.2):
#
# - **warm-up**: rank r begins with as many forward passes as there are ranks behind it;
# - **steady**: then it does one forward pass and one backward pass in turn;
# - **cool-down**: when there are no more forward passes, the remaining backward passes.
#
# So rank r of p never has more than p − r micro-batches under way, however many there are. With fewer
# micro-batches than ranks, the warm-up may be all of them.
#
# `train_step` is called as in `gpipe`, with the same arguments, and leaves the same gradients and the
# same loss: with `shapes` on every rank, `inputs` on rank 0 and `targets` on the last one, lists of
# one item for each micro-batch. Inputs and messages are float64; the last micro-batch may be smaller.
# Again there are two messages for each micro-batch at each border.
#
# One thing is new: neighbours now send to each other at the same time, one forward and one back.
#
# The check looks at gradients, losses, messages and each rank's order of passes, as in `gpipe`; at
# how many micro-batches a rank has under way in this order; and, with two ranks and activations of
# 4 MB for each micro-batch, at the memory that the kernel counts.
#
# *Before you start: rank 0 has done its warm-up and one more forward pass, and sends that output to
# rank 1. Rank 1 has just done its first backward pass and sends the gradient to rank 0. What happens
# if both call `dist.send`?*

# %%
# %%answer one_f_one_b
from collections import deque
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn


def train_step(
    stage: nn.Module,
    inputs: list[torch.Tensor] | None,
    targets: list[torch.Tensor] | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    shapes: list[tuple[int, ...]],
) -> float | None:
    """This rank's part of a step: warm-up, one forward and one backward in turn, cool-down.

    Gradients of the batch's mean loss are left in the stage's parameters. Returns the loss on the
    last rank; what the others return does not count.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("one_f_one_b")

# %% [markdown]
# **Answer.** Both wait for ever: a blocking send returns when the other rank receives, and neither
# comes to its `recv`. With `isend` both go on to receive. Without micro-batches going both ways, as in
# `gpipe`, blocking sends are enough.

# %% [markdown]
# ## `zero1`: each rank keeps a part of the optimizer's states
#
# **Core**, about 20 minutes.
#
# **To write:** the optimizer that spreads another one's states. **Not allowed:**
# `ZeroRedundancyOptimizer`. **Allowed:** everything else that an answer may import, all collectives
# and torch's optimizers too.
#
# Adam keeps two moments for each parameter. With data parallelism every rank keeps the same moments
# and computes the same update: W times the memory for one result. ZeRO's first stage keeps each
# parameter's moments on one rank (Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training
# Trillion Parameter Models*, SC 2020, section 5.1). That rank, its **owner**, updates the parameter,
# and sends the new value to the others.
#
# Write `ZeroOptimizer(params, optimizer_class, **defaults)`. Training uses it in place of
# `optimizer_class(params, **defaults)`, and the parameters are the same after each step.
#
# - **Gradients** are already the mean over the ranks when `step()` is called, as after `ddp`. All
#   ranks start from equal parameters.
# - **Any optimizer of torch's** that updates each parameter by itself: Adam, SGD with momentum and so
#   on. `params` is an iterable of parameters, such as the generator `model.parameters()`, or of
#   groups. A group is a dict of options and of `params`, an iterable of parameters too.
# - **Owners.** Each parameter has one, from the beginning to the end. Give the next parameter to the
#   rank that has the fewest **bytes** so far: then no rank has more than 1/W of all bytes and one
#   parameter. A rank takes memory for the states of its own parameters only; it may own none.
# - **Once each.** In a step, each parameter travels from its owner to the other ranks, once.
# - **`param_groups`** is a list like the plain optimizer's, with all parameters. What is written
#   there counts from the next step on: `optimizer.param_groups[0]["lr"] = 0.01`.
#   `add_param_group(group)` adds a group later; it may bring a rank its first parameter.
# - **Not a `torch.optim.Optimizer`**: only the methods below are called, without closures and
#   `set_to_none`. torch's schedulers refuse such a class; a new rate is written to `param_groups`.
# - **`gathered_state_dict()`** is called on all ranks. On rank 0 it returns what the plain
#   optimizer's `state_dict()` would be, elsewhere None. A parameter that was never updated has no
#   entry in its `state`.
#
# *Before you start: a model has 1 billion parameters, in float32, and is trained with Adam on 8 ranks.
# How many GB are parameters, gradients and moments on each rank, without and with your optimizer?*

# %%
# %%answer zero1
from collections.abc import Iterable

import torch
import torch.distributed as dist


class ZeroOptimizer:
    """An optimizer whose states are spread over the ranks: each parameter is updated by one.

    `params` are parameters, or groups: dicts with `params` and options. `optimizer_class` is a
    class of torch.optim, and `defaults` are its keyword arguments. `param_groups` is a list of
    dicts, as a plain optimizer has it, with all parameters. It need not be a torch.optim.Optimizer:
    only these methods are called, and no scheduler takes it.
    """

    def __init__(self, params: Iterable, optimizer_class: type, **defaults) -> None:
        # YOUR CODE HERE
        raise NotImplementedError()

    def add_param_group(self, group: dict) -> None:
        """Add a group: `params` and options. Those that it does not have are `defaults`."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def zero_grad(self) -> None:
        """Every parameter's `grad` is None afterwards."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def step(self) -> None:
        """Update all parameters, on all ranks: each by its owner. One without `grad` stays."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def gathered_state_dict(self) -> dict | None:
        """On rank 0, the plain optimizer's `state_dict()`, elsewhere None. Call it on all ranks."""
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("zero1")

# %% [markdown]
# **Answer.** Parameters and gradients are 4 GB each, the two moments 8 GB: 16 GB. With 8 ranks a rank
# keeps 1 GB of moments: 9 GB. What remains is parameters and gradients; ZeRO's second stage spreads
# the gradients too, and its third, `fsdp` below, the parameters. A step now sends the parameters
# after the gradients were averaged: half as much again as data parallelism. A `reduce` of each
# gradient to its owner, instead of the average everywhere, brings it back to the same bytes.

# %% [markdown]
# ## `fsdp`: parameters are gathered where they are used
#
# **More**, about 40 minutes: after the core exercises, or at home.
#
# **To write:** the wrapper. **Not allowed:** `fully_shard`, `FullyShardedDataParallel`. **Allowed:**
# everything else that an answer may import, hooks of autograd and collectives too.
#
# Each rank keeps 1/W of every large weight: its **shard**. Just before a layer computes, forward or
# backward, all ranks gather the layer's weight; just after, they free it. The gradient is
# reduce-scattered: each rank gets the mean gradient of its shard only. So parameters, gradients and
# optimizer states are all sharded: ZeRO's third stage (Rajbhandari et al., SC 2020, section 5.3),
# PyTorch's `fully_shard` (Zhao et al., *PyTorch FSDP*, VLDB 2023, section 3).
#
# Write `FullyShard(module, compute_dtype=None)`. All ranks are given equal modules, and use the same
# layers in the same order in each step. `synchronize()` is called between `backward()` and
# `optimizer.step()`, as in `ddp`.
#
# **Stage 1: gather, compute, free.** It is done when the first six claims hold.
#
# - **Sharded** is the `weight` of each `nn.Linear` and `nn.Embedding` (their subclasses too) that has
#   at least 1024 elements. A shard is `ceil(elements / W)` elements of the flattened weight; the last
#   one may have padding. A weight is gathered by one collective.
# - **Called** is each such layer, as `layer(x)`. So modules with `nn.MultiheadAttention`, as
#   `nn.TransformerEncoderLayer`, are not given: it reads its output layer's weight without a call.
# - **Replicated** is every other parameter. Its gradient is averaged, as in `ddp`.
# - **`parameters()`** of your wrapper has the shards in place of the weights. After `synchronize()`
#   each `grad` is the mean over the ranks, in its parameter's shape and dtype, so that any optimizer
#   of torch's works.
# - **Freed.** A rank holds a few whole weights at most. Two are enough: one that computes, and the
#   next. Autograd saves what a layer needs for backward, and a weight is part of that. So it takes
#   more than deleting your own reference: `torch.autograd.graph.saved_tensors_hooks` lets you save
#   something else in place of a tensor, and make the tensor when backward asks for it.
# - **Bytes.** A weight of n bytes is gathered twice and its gradient scattered once: each time,
#   (W−1)/W · n leave a rank. Data parallelism sends 2 (W−1)/W · n, so this is 3/2 of it. With Gloo,
#   `reduce_scatter_single` is an `all_reduce` of which a rank keeps its part, and sends twice that
#   (with NCCL it does not). `all_to_all_single` sends each rank its part and no more; the adding up is
#   then yours.
# - A **tied** weight has one shard, and gradients from both uses. A **frozen** one is sharded and
#   gathered, and has no gradient.
# - **`gather(name)`** is called on all ranks, and returns a parameter whole. Names are those of
#   `module.named_parameters()` before it was wrapped; a tied weight has two.
#
# **Stage 2: the next gather is under way; fewer bits.** It is done when all claims hold.
#
# - **Prefetch.** While a layer computes, the gather of the next layer's weight is under way, in
#   forward, and in backward in the reverse order. You may learn the order in the first step.
# - **`compute_dtype`**, `torch.bfloat16` for example. A sharded weight travels in it, and its layer
#   computes in it: inputs and bias are converted (not tokens, which are integers), and the output is
#   converted back. The gradient travels in it too, and is added up in the shard's own dtype: master
#   weights, gradients and optimizer states stay in float32. What is replicated does not change, and
#   its gradient is averaged in its own dtype.
#
# *Before you start: a layer's forward is over and you free its weight. Why may autograd not simply
# keep it until backward?*

# %%
# %%answer fsdp
import math
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class FullyShard(nn.Module):
    """Keep 1/W of each large weight on each rank, and gather it where it is used.

    Sharded are the weights of nn.Linear and nn.Embedding with 1024 elements or more; `parameters()`
    has this rank's shard in place of each, and all other parameters as they are. With
    `compute_dtype`, sharded weights travel in it, and their layers compute in it.
    """

    def __init__(self, module: nn.Module, compute_dtype: torch.dtype | None = None) -> None:
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

        Each has its parameter's shape and dtype. A frozen parameter has none.
        """
        # YOUR CODE HERE
        raise NotImplementedError()

    def gather(self, name: str) -> torch.Tensor:
        """A parameter, whole, in its own shape and dtype. Call it on all ranks.

        `name` as in `module.named_parameters(remove_duplicate=False)` before it was wrapped.
        """
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("fsdp")

# %% [markdown]
# **Answer.** Each layer's weight would be kept from its forward to its backward. When the forward
# pass ends, a rank would hold every weight of the model: as much as without sharding. Gathering again
# in backward costs a third of the bytes (`reshard_after_forward=False` in `fully_shard` saves it, and
# takes the memory).

# %% [markdown]
# ## `mesh_2d`: data in one direction, tensors in the other
#
# **More**, about 15 minutes: after the core exercises, or at home.
#
# **To write:** the mesh's groups, and the sums in them. **Not allowed:** `parallelize_module` and
# `DTensor`. **Allowed:** everything else that an answer may import, `torch.autograd.Function` and
# collectives too.
#
# Both kinds of parallelism at once: `data` rows of `tensor` ranks each. A row has one model, split by
# tensors, and samples of its own. A column has one slice of the weights, and all samples (Narayanan et
# al. 2021, *Efficient Large-Scale Language Model Training on GPU Clusters*, section 3.3).
#
# Ranks are numbered along the rows: rank = row · `tensor` + column. On a mesh of 2 × 2, ranks 0 and 1
# are the first row. The layer is that of `tensor_parallel`, and it is given:
#
# ```python
# hidden = F.gelu(F.linear(mesh.enter(x), up, up_bias))   # this column's slices of up
# y = mesh.leave(F.linear(hidden, down)) + down_bias      # its slice of down, the bias whole
# y.backward(gradient)
# mesh.average([up, up_bias, down, down_bias])
# ```
#
# Write `Mesh(data, tensor)`; `data · tensor` ranks call it, and several meshes may be made one after
# the other.
#
# - **`enter(x)`** is x; its gradient is the sum of the gradients in the row.
# - **`leave(part)`** is the sum of the parts in the row; its gradient passes as it is.
# - **`average(parameters)`** makes each `grad` the mean over the column. `parameters` is any
#   iterable, such as the generator `model.parameters()`.
# - Each sum goes over **its own group** and no other, and each gradient travels once. On a dimension
#   of size 1 nothing has to be sent.
#
# *Before you start: `down_bias` is whole on every rank. Over which ranks must its gradient be
# averaged: the row, the column, or all?*

# %%
# %%answer mesh_2d
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


class SumInBackward(torch.autograd.Function):
    """x as it is; its gradient is the sum over the group."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        # YOUR CODE HERE
        raise NotImplementedError()


class SumInForward(torch.autograd.Function):
    """The sum of the parts in the group; each part gets the gradient as it is."""

    @staticmethod
    def forward(ctx, part, group):
        # YOUR CODE HERE
        raise NotImplementedError()

    @staticmethod
    def backward(ctx, gradient):
        # YOUR CODE HERE
        raise NotImplementedError()


class Mesh:
    """Ranks in `data` rows of `tensor` columns. Call it on all ranks."""

    def __init__(self, data: int, tensor: int) -> None:
        # YOUR CODE HERE
        raise NotImplementedError()

    def enter(self, x: Tensor) -> Tensor:
        """x; in backward, the sum of the row's gradients."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def leave(self, part: Tensor) -> Tensor:
        """The sum of the row's parts; in backward, the gradient as it is."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Each `grad` becomes the mean over the column."""
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("mesh_2d")

# %% [markdown]
# **Answer.** The column. Ranks of a row have the same samples and the whole output, so their
# gradients of `down_bias` are equal already. An average over all ranks would give the same numbers
# and send more. For `up` it would be wrong: ranks of a row have different slices of it.

# %% [markdown]
# ## `mesh_layout`: names, a mesh, and what follows
#
# **More**, about 20 minutes: after the core exercises, or at home.
#
# **To write:** each rank's slice, and the sums that follow. **Allowed:** anything that an answer may
# import.
#
# Give every dimension of every tensor a name. Arrange the ranks in a mesh whose dimensions have names
# too. One small table, the *layout*, then says everything: which dimension of the tensors is split
# over which dimension of the mesh. Data parallel, column split and row split are one line each; the
# program stays the same (Mesh-TensorFlow: Shazeer et al. 2018).
#
# `mesh` and each tensor are dicts of sizes by name, in order: `{"rows": 2, "columns": 3}` are six
# ranks, and `{"batch": 12, "hidden": 24}` is a tensor. `layout` is a dict from a tensor's dimension to
# the mesh's: `{"batch": "rows"}`.
#
# - **Ranks** are numbered with the mesh's last dimension changing fastest: on the mesh above, rank 1
#   is in row 0 and column 1, rank 3 in row 1 and column 0.
# - **A slice**: a dimension that the layout names is cut into equal parts, one for each place along
#   that dimension of the mesh. All other dimensions are whole on every rank. The layout is that of a
#   whole program: it may name dimensions that a tensor does not have.
# - **A product** (an *einsum*) multiplies its inputs and sums over all dimensions that its output does
#   not have: `[batch, io] × [io, hidden] → [batch, hidden]` sums over io. Each rank multiplies its
#   slices. Where a dimension that is summed over is split, a rank has only a part of the sum, and an
#   all-reduce over that dimension of the mesh must follow. Each rank puts in its slice of the output;
#   numbers are float32.
# - **The gradient of an input** is again a product: of the output's gradient, which has the output's
#   dimensions, and of all other inputs. Its result has the dimensions of that input.
# - **What cannot be**: two dimensions of one product, be they of one tensor or of two, split over the
#   same dimension of the mesh; a size that does not divide. Both sums raise `ValueError` then, and
#   `slice_of` does if the tensor alone cannot be split so.
#
# *Before you start: x [batch, io] times w [io, hidden] on a mesh of one dimension. You may split
# batch, io or hidden. For which of the three does the forward pass need an all-reduce, for which the
# gradient of w, and for which the gradient of x?*

# %%
# %%answer mesh_layout
from math import prod


def slice_of(
    tensor: dict[str, int], mesh: dict[str, int], layout: dict[str, str], rank: int
) -> dict[str, tuple[int, int]]:
    """For each dimension of the tensor, in order, (start, stop) of what `rank` holds."""
    # YOUR CODE HERE
    raise NotImplementedError()


def forward_sum(
    inputs: list[dict[str, int]],
    output: dict[str, int],
    mesh: dict[str, int],
    layout: dict[str, str],
) -> tuple[list[str], int]:
    """The all-reduce that follows the product of `inputs`: over which dimensions of the mesh, and
    how many bytes each rank puts in. ([], 0) where none follows."""
    # YOUR CODE HERE
    raise NotImplementedError()


def gradient_sums(
    inputs: list[dict[str, int]],
    output: dict[str, int],
    mesh: dict[str, int],
    layout: dict[str, str],
) -> list[tuple[list[str], int]]:
    """The same for the gradient of each input, in the inputs' order."""
    # YOUR CODE HERE
    raise NotImplementedError()


def local_shape(
    dimensions: dict[str, int], mesh: dict[str, int], layout: dict[str, str]
) -> dict[str, int]:
    """The sizes of every rank's slice; ValueError where there is none."""
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("mesh_layout")

# %% [markdown]
# **Answer.** Split by batch, the gradient of w needs it: that is data parallel training. Split by
# io, the forward pass does: each rank has a part of every sum, Megatron's row split. Split by hidden,
# the gradient of x does: Megatron's column split. Each way needs one, and a layout chooses which.

# %% [markdown]
# ## `moe_all_to_all`: tokens travel to their experts
#
# **More**, about 30 minutes: after the core exercises, or at home.
#
# **To write:** dispatch and combine, with their gradients. **Allowed:** anything that an answer may
# import, all collectives and `torch.autograd.Function` too.
#
# A layer has many *experts*, small networks, and a *router* that chooses one for each token. Each
# rank has some of the experts, and tokens of its own (Lepikhin et al. 2020, *GShard*, section 3; one
# expert per token: Fedus et al. 2022, *Switch Transformers*, section 2). So tokens travel: an
# all-to-all brings them to their experts (*dispatch*), and another one brings the outputs back
# (*combine*).
#
# Write `moe(x, choice, gate, experts, capacity)`. The router has done its work already:
#
# - **Tokens.** `x` [n, width] are this rank's, `choice` [n] their experts' numbers, `gate` [n] how
#   sure the router was. n differs from rank to rank, and may be 0.
# - **Experts.** `experts` is the list of this rank's. Every rank has as many, and they are numbered
#   over the ranks: with 2 on each, rank 1 has experts 2 and 3.
# - **Capacity.** In a call an expert takes at most `capacity` tokens, of all ranks together. Those
#   that come first are taken: rank 0's before rank 1's, and on a rank in the order of `x`. The
#   others are *dropped*.
# - **Output** [n, width]: for each token, in the order of `x`, its gate times its expert's output.
#   Where the token was dropped, zeros.
# - **Backward** leaves gradients in `x`, in `gate`, and in the experts' parameters, as if one process
#   had everything.
# - **Once each.** An expert is applied once in a call, to all its tokens together.
# - **Bytes.** A token that stays on its rank, or is dropped, does not travel. What ranks tell each
#   other of their choices is a few numbers.
#
# *Before you start: how can a rank know, before it sends any token, which of its own will be dropped?*

# %%
# %%answer moe_all_to_all
import torch
import torch.distributed as dist
from torch import Tensor, nn


class Exchange(torch.autograd.Function):
    """Rows to all ranks: the first sent[0] to rank 0, the next sent[1] to rank 1, and so on.

    From rank r, received[r] rows arrive. Their gradients go the same way back.
    """

    @staticmethod
    def forward(ctx, rows, sent, received):
        # YOUR CODE HERE
        raise NotImplementedError()

    @staticmethod
    def backward(ctx, gradient):
        # YOUR CODE HERE
        raise NotImplementedError()


def moe(x: Tensor, choice: Tensor, gate: Tensor, experts: list[nn.Module], capacity: int) -> Tensor:
    """For each of this rank's tokens, gate · expert(token), or zeros; [n, width] as x.

    `choice` [n] are numbers of experts over all ranks; `experts` are this rank's.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("moe_all_to_all")

# %% [markdown]
# **Answer.** Each rank counts how many of its tokens chose each expert, and all ranks gather these
# counts: one number for each expert. The counts of lower ranks are the places in front of its own
# tokens, so a rank knows where its tokens stand in every queue. The same table has the lengths of all
# pieces: what to send, and what will arrive.

# %% [markdown]
# ## Where next
#
# The next lecture is [08 Case studies: what happens at 256 GPUs](../notebooks/08_case_studies.ipynb); then come its [exercises](08_case_studies.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/07_hybrid_parallelism.ipynb) of these exercises.
