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

# %% [markdown]
# ## `naive_all_reduce`: everything through one rank
#
# Every rank has a tensor, and every rank wants the sum of all of them: an *all-reduce*. The way that
# comes to mind first needs nothing but messages from one rank to another:
#
# 1. **gather**: every rank sends its tensor to rank 0;
# 2. **add**: rank 0 adds them up;
# 3. **broadcast**: rank 0 sends the sum to every rank.
#
# `dist.send(tensor, to)` returns when the message is under way, `dist.recv(tensor, from)` when it has
# arrived in `tensor`, which must have the shape and the dtype of what was sent. `dist.isend` and
# `dist.irecv` return at once, with something to `wait()` for. With Gloo, a message sets out when the
# other side has said where it is to go: a `send` without its `recv` never returns.
#
# The tensor that goes in stays as it is, since whoever called may still need it. Gloo's own
# collectives are not for this exercise: what they hide is what is to be seen.
#
# Held to: the sum, on every rank; `send` and `recv` alone, in the ledger; and who sends how much, by
# the kernel's count at each rank's link.
#
# *Before you start: four ranks, 1 MB each, a link of 1 Gbit/s for every rank. How long is each link
# in use, in each direction, and how much longer does it take with eight ranks?*

# %%
# %%answer naive_all_reduce
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("naive_all_reduce")

# %% [markdown]
# Now let the kernel count. 1 MB on each of four ranks: what has gone over whose link?

# %%
# %%ranks 4 --link 1gbit --evidence run
import torch

naive_all_reduce(torch.ones(250_000))

# %%
for rank in run.ranks:
    if rank.traffic:
        sent, received = rank.traffic.sent_bytes / 1e6, rank.traffic.received_bytes / 1e6
        print(f"rank {rank.rank} sent {sent:.2f} MB and received {received:.2f} MB")

# %% [markdown]
# Rank 0's link carries (p−1) tensors in and then (p−1) tensors out, while each of the other links
# stands idle most of the time. Whatever rank you add, rank 0 pays for it.
