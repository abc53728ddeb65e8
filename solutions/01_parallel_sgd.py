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
    ### BEGIN SOLUTION
    total = tensor.clone()
    others = range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arrived = torch.empty_like(tensor)
        for other in others:
            dist.recv(arrived, other)
            total += arrived
        for other in others:
            dist.send(total, other)
    else:
        dist.send(tensor, 0)
        dist.recv(total, 0)
    return total
    ### END SOLUTION


# %%
check("naive_all_reduce")

# %% [markdown]
# Now let the kernel count. 1 MB on each of four ranks: what has gone over whose link?

# %%
# %%ranks 4 --link 1gbit --evidence run
import torch

total = naive_all_reduce(torch.ones(250_000))

# %%
for rank in run.ranks:
    if rank.traffic:
        sent, received = rank.traffic.sent_bytes / 1e6, rank.traffic.received_bytes / 1e6
        print(f"rank {rank.rank} sent {sent:.2f} MB and received {received:.2f} MB")

# %% [markdown]
# Rank 0's link carries (p−1) tensors in and then (p−1) tensors out, while each of the other links
# stands idle most of the time. Whatever rank you add, rank 0 pays for it.

# %% [markdown]
# ## `ring_all_reduce`: nobody sends more than anybody else
#
# Cut the tensor into p parts, and let each rank send to its right neighbour only, rank p−1 to rank 0.
#
# - **reduce-scatter**, p−1 steps: in each step, every rank sends one part to the right, receives
#   another from the left, and adds that to its own. A part that has come by everybody is the sum.
#   At the end each rank has one such part.
# - **all-gather**, p−1 steps: the finished parts go round, and take the place of what is there.
#
# Each rank sends 2 (p−1) parts of n/p bytes: 2 (p−1)/p · n, less than 2 n however many ranks there
# are, and no algorithm does with less (Patarasuk and Yuan 2009, *Bandwidth optimal all-reduce
# algorithms for clusters of workstations*, sections 3 and 4). That is why NCCL, Gloo and Horovod add
# up large gradients this way.
#
# Three things to know:
#
# - In place: the sum must stand in the tensor that was given. A copy would cost as much memory as all
#   gradients do. `tensor.view(-1)` is the same memory as one row, and so is each part that
#   `tensor_split` cuts from it.
# - A `send` that nobody receives never returns. `dist.isend` and `dist.irecv` start a message, and
#   `wait()` ends it: every rank can then send and receive at the same time.
# - With Gloo, as with MPI for long messages, data sets out when the receiver has said that it is
#   ready. **Post the receive before you send.** The other way round, the word "ready" waits in line
#   behind your own data, and the link is idle in the other direction.
#
# Held to: the sum, also of tensors that p does not divide, down to no element at all; messages to one
# neighbour, in the ledger; 2 (p−1)/p of the bytes, by the kernel's count; and on a link of 100 Mbit/s
# not more than 1.25 times the seconds that so many bytes take.
#
# *Before you start: which part does rank 0 of 3 send in each of its four steps, and which one does it
# receive? What would happen if every rank called `send` first and `recv` then?*

# %%
# %%answer ring_all_reduce
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """`tensor` becomes the sum of all ranks' tensors, in place, around a ring.

    It is contiguous, of any shape, the same shape and dtype on all ranks; its length need not be a
    multiple of the world size, and may be less. Each rank sends to rank + 1 and receives from
    rank - 1, modulo the world size.
    """
    ### BEGIN SOLUTION
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    parts = tensor.view(-1).tensor_split(size)
    arrived = torch.empty_like(parts[0])  # the first part is as long as any

    for step in range(size - 1):  # reduce-scatter
        mine = parts[(rank - step - 1) % size]
        summand = arrived[: len(mine)]
        exchange(parts[(rank - step) % size], right, summand, left)
        mine += summand
    for step in range(size - 1):  # all-gather
        exchange(parts[(rank - step + 1) % size], right, parts[(rank - step) % size], left)


def exchange(outgoing: torch.Tensor, right: int, incoming: torch.Tensor, left: int) -> None:
    """Send one tensor and receive another at the same time."""
    receive = dist.irecv(incoming, left)  # first, so that the left neighbour can begin
    send = dist.isend(outgoing, right)
    receive.wait()
    send.wait()
    ### END SOLUTION


# %%
check("ring_all_reduce")

# %% [markdown]
# And by the kernel's count, for the same 1 MB on each of four ranks:

# %%
# %%ranks 4 --link 1gbit --evidence run
import torch

ring_all_reduce(torch.ones(250_000))

# %%
for rank in run.ranks:
    if rank.traffic:
        sent, received = rank.traffic.sent_bytes / 1e6, rank.traffic.received_bytes / 1e6
        print(f"rank {rank.rank} sent {sent:.2f} MB and received {received:.2f} MB")

# %% [markdown]
# All links carry the same, both ways at once, and rank 0's carries half of what it carried before.
# With more ranks it will not be much more: 2 (p−1)/p is never 2.
