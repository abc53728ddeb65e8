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
# ## `zero1`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer zero1
def zero1():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("zero1")

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
