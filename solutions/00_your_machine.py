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
# # 00 Your machine: exercise
#
# One short exercise, to see how all the others work. The cell that starts with `%%answer` is yours;
# the cell below it checks what you wrote. An answer is a small module of its own: it brings its own
# imports and sees nothing of the other cells.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `hello_ranks`: say a number, hear the sum
#
# `hello` is called once on every rank, each time with another number. Return the sum of the numbers
# of all ranks, on every rank, as an `int`. With three ranks and the numbers 7, 20 and 3, all three
# calls return 30.
#
# Each rank knows only its own number, so they have to meet. `dist.all_reduce(tensor)` is where: it
# adds up one tensor from each rank, and writes the sum over what was in the tensor, everywhere. The
# process group is there already, and `dist.get_rank()` and `dist.get_world_size()` work.
#
# *Before you start: rank 0 calls `all_reduce` and rank 1 does not. What does rank 0 do?*

# %%
# %%answer hello_ranks
import torch
import torch.distributed as dist


def hello(number: int) -> int:
    """The sum of `number` over all ranks, on every rank."""
    ### BEGIN SOLUTION
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
    ### END SOLUTION


# %%
check("hello_ranks")

# %% [markdown]
# If rank 0 is the only one to call it, it waits. A collective is complete when every rank has
# called it, and there is nobody else to wait for. Try it: put the call under
# `if dist.get_rank() == 0:`, run the answer cell and check again.
#
# `def hello(number): return number` is right for one rank and for no more. That is why every answer
# in this course is run on 1, 2, 3 and 4 ranks.
