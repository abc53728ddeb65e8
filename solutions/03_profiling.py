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
# # 03 Profiling with TensorBoard: exercises
#
# In these exercises you record a trace, read it, and mend what it shows: in one process, and on
# ranks that wait for each other.
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
# ## `instrument`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer instrument
def instrument():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("instrument")

# %% [markdown]
# ## `fix_the_loader`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer fix_the_loader
def fix_the_loader():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("fix_the_loader")

# %% [markdown]
# ## `step_breakdown`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer step_breakdown
def step_breakdown():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("step_breakdown")

# %% [markdown]
# ## `find_the_straggler`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer find_the_straggler
def find_the_straggler():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("find_the_straggler")

# %% [markdown]
# ## `overlap`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer overlap
def overlap():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("overlap")
