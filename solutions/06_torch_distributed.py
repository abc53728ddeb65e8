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
# # 06 Data parallel CIFAR-10 with torch.distributed: exercises
#
# Six pieces make a training script data parallel: the ranks find each other, share out the samples,
# average their gradients, add up their metrics, survive a kill, and run under `torchrun` and `srun`
# alike. You write each of them here, on this machine, and the same code then runs on a cluster.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. An answer is
# a small module of its own: it brings its own imports and sees nothing of the other cells. The check
# runs it on 1, 2, 3 and 4 ranks with fresh inputs each time and says which claims hold. Check as
# often as you like; a wrong answer costs nothing.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `process_group`: who am I, and where do we meet?

# %% [markdown]
# ## `shard_sampler`: which samples, on which rank, in which epoch?

# %% [markdown]
# ## `ddp`: the same gradient everywhere

# %% [markdown]
# ## `global_metrics`: accuracy and loss of the whole test set

# %% [markdown]
# ## `checkpoint`: stopped, and carried on as if nothing had happened

# %% [markdown]
# ## `ddp_train`: from a serial script to all ranks
