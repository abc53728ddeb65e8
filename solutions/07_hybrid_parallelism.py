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
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `split_layers`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer split_layers
def split_layers():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("split_layers")

# %% [markdown]
# ## `tensor_parallel`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer tensor_parallel
def tensor_parallel():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("tensor_parallel")

# %% [markdown]
# ## `gpipe`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer gpipe
def gpipe():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("gpipe")

# %% [markdown]
# ## `one_f_one_b`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer one_f_one_b
def one_f_one_b():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("one_f_one_b")

# %% [markdown]
# ## `zero1`: each rank keeps a part of the optimizer's states
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
#   on. `params` is an iterable of parameters, or of groups: dicts with `params` and options.
# - **Owners.** Each parameter has one, from the beginning to the end. Give the next parameter to the
#   rank that has the fewest **bytes** so far: then no rank has more than 1/W of all bytes and one
#   parameter. A rank takes memory for the states of its own parameters only.
# - **Once each.** In a step, each parameter travels from its owner to the other ranks, once.
# - **`param_groups`** is a list like the plain optimizer's, with all parameters. What is written
#   there counts from the next step on: `optimizer.param_groups[0]["lr"] = 0.01`.
#   `add_param_group(group)` adds a group later.
# - **`gathered_state_dict()`** is called on all ranks. On rank 0 it returns what the plain
#   optimizer's `state_dict()` would be, elsewhere None.
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
    dicts, as a plain optimizer has it, with all parameters.
    """

    def __init__(self, params: Iterable, optimizer_class: type, **defaults) -> None:
        ### BEGIN SOLUTION
        self.make = lambda group: optimizer_class([group], **defaults)
        self.own = None  # this rank's optimizer
        self.param_groups: list[dict] = []
        self.owner: dict[torch.Tensor, int] = {}
        self.bytes_of = [0] * dist.get_world_size()
        groups = list(params)
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        ### END SOLUTION

    def add_param_group(self, group: dict) -> None:
        """Add a group: `params` and options. Those that it does not have are `defaults`."""
        ### BEGIN SOLUTION
        params = list(group["params"])
        for parameter in params:
            owner = self.bytes_of.index(min(self.bytes_of))
            self.owner[parameter] = owner
            self.bytes_of[owner] += parameter.numel() * parameter.element_size()
        mine = {**group, "params": [p for p in params if self.owner[p] == dist.get_rank()]}
        if self.own is None:
            self.own = self.make(mine)
        else:
            self.own.add_param_group(mine)
        # With all options, also those that the class has filled in
        self.param_groups.append({**self.own.param_groups[-1], "params": params})
        ### END SOLUTION

    def zero_grad(self) -> None:
        """Every parameter's `grad` is None afterwards."""
        ### BEGIN SOLUTION
        for parameter in self.owner:
            parameter.grad = None
        ### END SOLUTION

    def step(self) -> None:
        """Update all parameters, on all ranks: each by its owner. One without `grad` stays."""
        ### BEGIN SOLUTION
        for mine, group in zip(self.own.param_groups, self.param_groups, strict=True):
            mine.update({key: value for key, value in group.items() if key != "params"})
        self.own.step()
        works = [
            dist.broadcast(parameter.detach(), src=owner, async_op=True)
            for parameter, owner in self.owner.items()
        ]
        for work in works:
            work.wait()
        ### END SOLUTION

    def gathered_state_dict(self) -> dict | None:
        """On rank 0, the plain optimizer's `state_dict()`, elsewhere None. Call it on all ranks."""
        ### BEGIN SOLUTION
        number = {parameter: n for n, parameter in enumerate(self.owner)}
        mine = {number[parameter]: state for parameter, state in self.own.state.items()}
        parts = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
        dist.gather_object(mine, parts, dst=0)
        if parts is None:
            return None
        return {
            "state": {n: state for part in parts for n, state in part.items()},
            "param_groups": [
                {**group, "params": [number[parameter] for parameter in group["params"]]}
                for group in self.param_groups
            ],
        }
        ### END SOLUTION


# %%
check("zero1")

# %% [markdown]
# **Answer.** Parameters and gradients are 4 GB each, the two moments 8 GB: 16 GB. With 8 ranks a rank
# keeps 1 GB of moments: 9 GB. What remains is parameters and gradients; ZeRO's second stage spreads
# the gradients too, and its third, `fsdp` below, the parameters. A step now sends the parameters
# after the gradients were averaged: half as much again as data parallelism. A `reduce` of each
# gradient to its owner, instead of the average everywhere, brings it back to the same bytes.

# %% [markdown]
# ## `fsdp`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer fsdp
def fsdp():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("fsdp")

# %% [markdown]
# ## `mesh_2d`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer mesh_2d
def mesh_2d():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("mesh_2d")

# %% [markdown]
# ## `mesh_layout`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer mesh_layout
def mesh_layout():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("mesh_layout")

# %% [markdown]
# ## `moe_all_to_all`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer moe_all_to_all
def moe_all_to_all():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("moe_all_to_all")
