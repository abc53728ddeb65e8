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
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `roofline`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer roofline
def roofline():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("roofline")

# %% [markdown]
# ## `prefetch`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer prefetch
def prefetch():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("prefetch")

# %% [markdown]
# ## `memory_budget`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer memory_budget
def memory_budget():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("memory_budget")

# %% [markdown]
# ## `pack_files`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer pack_files
def pack_files():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("pack_files")

# %% [markdown]
# ## `fusion_buffer`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer fusion_buffer
def fusion_buffer():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("fusion_buffer")

# %% [markdown]
# ## `binding_plan`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer binding_plan
def binding_plan():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("binding_plan")

# %% [markdown]
# ## `mixed_precision`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer mixed_precision
def mixed_precision():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("mixed_precision")
