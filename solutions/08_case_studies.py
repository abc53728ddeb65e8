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
# # 08 Case studies: exercises
#
# In these exercises you fit a network's two constants, foretell a scaling curve, find where it stops
# paying, and choose how to split a model over a cluster.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer with new inputs each time, and reports which claims hold. Check
# as often as you like; a wrong answer costs nothing. *Before you start* is a question to think about
# first; its answer is below the check.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `fit_alpha_beta`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer fit_alpha_beta
def fit_alpha_beta():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("fit_alpha_beta")

# %% [markdown]
# ## `predict_scaling`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer predict_scaling
def predict_scaling():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("predict_scaling")

# %% [markdown]
# ## `find_the_knee`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer find_the_knee
def find_the_knee():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("find_the_knee")

# %% [markdown]
# ## `choose_layout`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer choose_layout
def choose_layout():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("choose_layout")
