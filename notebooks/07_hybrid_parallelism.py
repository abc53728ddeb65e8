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
# # 07 Hybrid parallelism and model sharding

# %%
# %load_ext hpml
# %matplotlib inline

# %% [markdown]
# ## 1. It does not fit

# %% [markdown]
# ## 2. Layers on ranks: who idles

# %% [markdown]
# ## 3. GPipe: micro-batches and the bubble

# %% [markdown]
# ## 4. 1F1B: what stays alive *(more)*

# %% [markdown]
# ## 5. Tensors: column, then row

# %% [markdown]
# ## 6. Sequences and vocabularies split *(more)*

# %% [markdown]
# ## 7. States: ZeRO and FSDP

# %% [markdown]
# ## 8. Meshes: data × tensor

# %% [markdown]
# ## 9. Mesh-TensorFlow: name the dimensions *(more)*

# %% [markdown]
# ## 10. Memory for time *(more)*

# %% [markdown]
# ## 11. Experts: tokens that travel *(more)*

# %% [markdown]
# ## 12. Long sequences: ring attention *(more)*

# %% [markdown]
# ## 13. Which split, when

# %% [markdown]
# ## What to take home
