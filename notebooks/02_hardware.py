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
# # 02 Hardware and its bottlenecks
#
# Compute, memory bandwidth, memory size, input and output, communication: one of them sets the pace
# of your training, and the others wait for it. Which one is yours, and what does it cost to find out?
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline

# %% [markdown]
# ## 1. Which one is mine?

# %% [markdown]
# ## 2. This machine's roofline

# %% [markdown]
# ## 3. The parts of ten years

# %% [markdown]
# ## 4. Fewer bits

# %% [markdown]
# ## 5. Hardware without its library is a promise

# %% [markdown]
# ## 6. Ten thousand small files

# %% [markdown]
# ## 7. Prefetching: from the sum to the maximum

# %% [markdown]
# ## 8. Few large messages *(more)*

# %% [markdown]
# ## 9. The slowest sets the pace *(more)*

# %% [markdown]
# ## 10. Where a rank runs *(more)*

# %% [markdown]
# ## 11. What training takes *(more)*

# %% [markdown]
# ## 12. Whose fault is it?

# %% [markdown]
# ## What to take home

# %% [markdown]
# ### Where to read on
