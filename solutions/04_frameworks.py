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
# # 04 Inside the frameworks: exercises
#
# In these exercises you write what a framework does for you: derivatives, an optimizer, memory freed
# in time, gradients on their way while others are still being computed, and an input pipeline.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer on several numbers of ranks, with new inputs each time, and
# reports which claims hold. Check as often as you like; a wrong answer costs nothing. *Before you
# start* is a question to think about first; its answer is below the check.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `autodiff`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer autodiff
def autodiff():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("autodiff")

# %% [markdown]
# ## `gradient_hooks`: each gradient leaves when it is ready
#
# **To write:** the hooks, and the function that waits for their messages. **Not allowed:**
# `DistributedDataParallel` and its like (`fully_shard`, `replicate`). **Allowed:** everything else
# that an answer may import, hooks of autograd and collectives too.
#
# Each rank has the same model, and a share of the batch. The plain way to average gradients is one
# `all_reduce` for each, when backward is over: the network is idle while the processor computes, and
# the other way round. But backward computes the gradient of the *last* layer first.
#
# Write `hook_gradients(model)`. It is called once on each rank, before the first step, and returns a
# function `finish`. In each step the training loop calls `model.zero_grad()`, then `loss.backward()`
# once, then `finish()`. When `finish` returns, the `grad` of each trained parameter is the mean over
# all ranks of their gradients of this step.
#
# - **When it is ready.** `parameter.register_post_accumulate_grad_hook(f)` has backward call
#   `f(parameter)` as soon as `parameter.grad` is complete. Each gradient is one message, in its own
#   dtype: an `all_reduce` with `async_op=True`, which returns at once, with a handle to wait for.
# - **No hook waits.** Backward goes on while messages travel, also when another rank is late. `finish`
#   waits for all of them.
# - **One order on all ranks.** Collectives match by order: the first call on one rank meets the first
#   call on the others. This model adds up two branches, and ranks may go over them in different
#   orders (as over a Python `set`), so that gradients become ready in different orders too. All ranks
#   start their messages in this order: the parameters of `model.parameters()`, last one first. A
#   gradient that is ready before its turn leaves as soon as its turn has come.
#
# A **tied** weight (one tensor under two names) is one parameter: `parameters()` lists it once, and
# its gradient is complete when both parts have been added up. A **frozen** parameter
# (`requires_grad=False`) takes no hook and has nothing to send. Each trained parameter gets a gradient
# on every rank in every step. After `zero_grad`, `grad` is `None` in some steps; in others it is the
# tensor of the step before, filled with zeros. All ranks start with the same weights, and their
# shares are equally large.
#
# For parameters `a`, `b`, `c` (in the order of `parameters()`) on two ranks:
#
# | rank 0: ready | starts | rank 1: ready | starts |
# |---|---|---|---|
# | `c` | `c` | `b` | nothing: `c` comes first |
# | `b` | `b` | `c` | `c`, then `b` |
# | `a` | `a` | `a` | `a` |
#
# *Before you start: a model has 100 gradients. To compute one takes 1 ms, to send one takes 1 ms, and
# the network sends one at a time. How long do backward and sending take if each hook waits for its
# message? And if none waits?*

# %%
# %%answer gradient_hooks
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn


def hook_gradients(model: nn.Module) -> Callable[[], None]:
    """Have each gradient of `model` averaged over the ranks, on its way as soon as it is ready.

    Returns `finish`, to be called after each backward: when it returns, every trained parameter's
    `grad` is the mean over the ranks. Messages leave in the order of `model.parameters()`, last one
    first, and no hook waits for one.
    """
    ### BEGIN SOLUTION
    # parameters() lists a tied weight once.
    order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
    ready: set[nn.Parameter] = set()
    in_flight: list[tuple[torch.Tensor, dist.Work]] = []

    def gradient_is_ready(parameter: nn.Parameter) -> None:
        ready.add(parameter)
        # The one whose turn it is, and those behind it that have waited for their turn
        while len(in_flight) < len(order) and order[len(in_flight)] in ready:
            gradient = order[len(in_flight)].grad
            in_flight.append((gradient, dist.all_reduce(gradient, async_op=True)))

    def finish() -> None:
        for gradient, work in in_flight:
            work.wait()
            gradient /= dist.get_world_size()
        ready.clear()
        in_flight.clear()

    for parameter in order:
        parameter.register_post_accumulate_grad_hook(gradient_is_ready)
    return finish
    ### END SOLUTION


# %%
check("gradient_hooks")

# %% [markdown]
# **Answer.** If each hook waits, 200 ms: nothing happens at the same time, and it is no better than to
# send everything after backward. If none waits, 101 ms: while one gradient travels the next one is
# computed, and only the last message has nothing to hide behind. In practice 100 messages also cost
# 100 latencies: that is what *buckets* are for (module 06).

# %% [markdown]
# ## `optimizers`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer optimizers
def optimizers():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("optimizers")

# %% [markdown]
# ## `static_graph`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer static_graph
def static_graph():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("static_graph")

# %% [markdown]
# ## `tf_input_pipeline`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer tf_input_pipeline
def tf_input_pipeline():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("tf_input_pipeline")
