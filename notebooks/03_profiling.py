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
# # 03 Profiling with TensorBoard
#
# A training step takes some milliseconds. Where do they go, and on which rank? Guess first, then
# measure; and mend the largest part first, whatever the code looks like.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline

# %% [markdown]
# ## 1. Where do the milliseconds go?

# %% [markdown]
# ## 2. Which profiler when, and what does it cost?

# %% [markdown]
# ## 3. A schedule, and names for the phases

# %% [markdown]
# ## 4. TensorBoard, with no internet

# %% [markdown]
# ## 5. One slow script put right

# %% [markdown]
# ## 6. What is in a trace *(more)*

# %% [markdown]
# ## 7. Four ranks side by side

# %% [markdown]
# ## 8. Communication behind backward *(more)*

# %% [markdown]
# ## 9. Scalars, images, histograms and profiles in one folder *(more)*

# %% [markdown]
# ## 10. TensorFlow's profiler *(more)*

# %% [markdown]
# ## 11. The same trace elsewhere *(more)*

# %% [markdown]
# ## 12. On the cluster *(more)*

# %% [markdown]
# ## What to take home
