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
# # 08 Case studies: what happens at 256 GPUs
#
# Everything of the day on one question: a model, a cluster and a bill are given; how many GPUs are
# worth paying for? Measure small, write down a model with two constants, foretell the large, and
# hold it against what others have published.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline


# %% [markdown]
# ## 1. The all-reduce, from 4 bytes to 256 MB

# %% [markdown]
# ## 2. Strong scaling fails on a small batch

# %% [markdown]
# ## 3. Published tables, and a model with two constants

# %% [markdown]
# ## 4. ImageNet in one hour: the arithmetic

# %% [markdown]
# ## 5. What it costs, and where to stop *(more)*

# %% [markdown]
# ## 6. Large batches, and the optimizers for them *(more)*

# %% [markdown]
# ## 7. Layer by layer, or all at once; flat, or in two levels *(more)*

# %% [markdown]
# ## 8. The grid: which factor moves throughput most *(more)*

# %% [markdown]
# ## 9. Choosing a layout *(more)*

# %% [markdown]
# ## 10. The race *(more)*

# %% [markdown]
# ## 11. A scaling study as one submission *(more)*

# %% [markdown]
# ## 12. Where it went *(more)*

# %% [markdown]
# ## What to take home
#
# 1. (three to six sentences)
#
# **Now:** `exercises/08_case_studies.ipynb`, first `predict_scaling`.
#
# ### Where to read on *(more)*
#
# - Goyal et al. 2017, *Accurate, large minibatch SGD: training ImageNet in 1 hour*:
#   https://arxiv.org/abs/1706.02677
