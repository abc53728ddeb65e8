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
# # 01 Parallel computing for deep learning: exercises
#
# Eight pieces, from a law on the back of an envelope to the algorithm that adds up the gradients of
# every large training run: how much faster N ranks can be at all; one step of SGD on N ranks that is
# the step of one; the learning rate that goes with it; the sum itself, through one rank and then
# around a ring; a server that everyone asks, and workers that wait for nobody; and at last what each
# of these ways to add up costs, before it is run.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. An answer is
# a small module of its own: it brings its own imports and sees nothing of the other cells. The check
# runs it on 1, 2, 3 and 4 ranks with fresh inputs each time and says which claims hold. Check as
# often as you like; a wrong answer costs nothing.

# %%
# %load_ext hpml
from hpml import check
