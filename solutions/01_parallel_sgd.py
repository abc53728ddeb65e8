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
# Eight exercises. How much faster can N ranks be (`amdahl`)? How do N ranks take the same step of SGD
# as one process (`sync_sgd`), and with which learning rate (`lr_scaling`)? How is the sum of all
# gradients made: through one rank (`naive_all_reduce`), around a ring (`ring_all_reduce`), or by a
# server, with and without waiting (`parameter_server`, `async_sgd`)? And what does each of these
# ways cost (`alpha_beta`)?
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer with new inputs each time, formulas on one rank and the others on
# 1, 2, 3 and 4, and reports which claims hold. Check as often as you like; a wrong answer costs
# nothing. *Before you start* is a question to think about first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `amdahl`: how much faster can it get at all?
#
# **To write:** the four formulas. **Allowed:** anything that an answer may import.
#
# Part of the work cannot be shared: reading the configuration, say, or what only rank 0 does. Let `s`
# be that serial fraction of the time, and p the number of ranks.
#
# - **Strong scaling**: the problem stays as large as it is, and p ranks share it. `s` is the serial
#   fraction of the time that **one** rank takes. The speed-up is the time of one rank divided by the
#   time of p ranks (Amdahl 1967).
# - **Weak scaling**: the problem grows with the ranks, so that each rank has as much work as one rank
#   had. `s` is the serial fraction of the time that **p** ranks take. The speed-up is the time that
#   one rank would take for the larger problem, divided by the time of p ranks (Gustafson 1988).
# - **Efficiency** is the speed-up per rank: 1 where p ranks are p times as fast.
# - **The serial fraction of a program** follows from one measurement of strong scaling: solve Amdahl's
#   law for `s` (Karp and Flatt 1990). If this fraction grows from 2 ranks to 4 and to 8, the reason
#   is not the serial part but the communication, which grows with the ranks.
#
# *Before you start: 5 % of a training step is serial. What is the largest speed-up that a thousand
# ranks can have on the same batch? And on a batch that is a thousand times as large?*


# %%
# %%answer amdahl
def strong_speedup(serial: float, ranks: int) -> float:
    """The speed-up of `ranks` ranks on a problem that stays as it is.

    `serial` (0 to 1) is the fraction of one rank's time that cannot be shared.
    """
    ### BEGIN SOLUTION
    return 1 / (serial + (1 - serial) / ranks)
    ### END SOLUTION


def weak_speedup(serial: float, ranks: int) -> float:
    """The speed-up of `ranks` ranks on a problem whose parallel part grows with them.

    `serial` (0 to 1) is the fraction of these ranks' time that cannot be shared.
    """
    ### BEGIN SOLUTION
    return serial + (1 - serial) * ranks
    ### END SOLUTION


def efficiency(speedup: float, ranks: int) -> float:
    """What each rank contributes, 1 where `ranks` ranks are `ranks` times as fast."""
    ### BEGIN SOLUTION
    return speedup / ranks
    ### END SOLUTION


def serial_fraction(speedup: float, ranks: int) -> float:
    """The `serial` for which `strong_speedup(serial, ranks)` is the measured `speedup`.

    `ranks` is at least 2. A speed-up beyond `ranks` gives a negative fraction, and one below 1 a
    fraction above 1: return it as it is.
    """
    ### BEGIN SOLUTION
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)
    ### END SOLUTION


# %%
check("amdahl")

# %% [markdown]
# **Answer.** On the same batch 1 / (0.05 + 0.95/1000) = 19.6, and however many ranks there are, it
# stays below 1/0.05 = 20. On the larger batch 0.05 + 0.95 · 1000 = 950.05.
#
# Your functions, for a program that is 5 % serial. Where would you stop paying for more ranks, if the
# problem stays as large as it is?

# %%
print("ranks   strong: speed-up, efficiency   weak: speed-up, efficiency")
for ranks in (1, 2, 4, 16, 64, 256, 1024):
    strong, weak = strong_speedup(0.05, ranks), weak_speedup(0.05, ranks)
    print(
        f"{ranks:5}   {strong:16.1f} {efficiency(strong, ranks):11.0%}"
        f"   {weak:14.1f} {efficiency(weak, ranks):11.0%}"
    )

# %% [markdown]
# ## `sync_sgd`: N ranks, one step
#
# **To write:** `start` and one step of SGD, on all ranks together. **Not allowed:**
# `DistributedDataParallel` and its like (`fully_shard`, `replicate`). **Allowed:** everything else
# that an answer may import.
#
# Synchronous data parallel SGD makes a simple promise: N ranks, each with a part of the samples, take
# exactly the step that one process would take with all of them. Nothing changes but the time that it
# takes.
#
# The model here is as small as can be: linear, with weights w, float64 of shape (d,). A sample is a
# row of x and a number of y, and its loss is ½ (x·w − y)². The loss of a batch is the **mean** over
# its samples; the gradient of that mean over n samples is xᵀ (x w − y) / n.
#
# - `start(weights)`: each rank gives weights of its own; every call returns those of rank 0.
# - `step(weights, x, y, learning_rate)`: the ranks give equal weights and a shard each, x float64
#   (n, d) and y float64 (n,). Every call returns the weights after one step of SGD on the samples of
#   all ranks. n may differ from rank to rank, and may be 0 on some.
#
# What counts is the tensor that is returned. It may be a new one, or `weights` itself, overwritten:
# both functions may write into it.
#
# Samples stay on the rank that has them: gradients travel, x and y do not.
#
# *Before you start: rank 0 has 30 samples and a mean gradient of 1, rank 1 has 10 samples and a mean
# gradient of 5. What is the gradient of the big batch, what is the mean of the two, and what the sum?*

# %%
# %%answer sync_sgd
import torch
import torch.distributed as dist


def start(weights: torch.Tensor) -> torch.Tensor:
    """Rank 0's weights, on every rank: float64 (d,). `weights` are this rank's own."""
    ### BEGIN SOLUTION
    dist.broadcast(weights, src=0)
    return weights
    ### END SOLUTION


def step(
    weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, learning_rate: float
) -> torch.Tensor:
    """The weights after one step of SGD on the samples of all ranks, on every rank: float64 (d,).

    `weights` are the same on all ranks; x (n, d) and y (n,), float64, are this rank's samples. n may
    be 0, though not on all ranks.
    """
    ### BEGIN SOLUTION
    gradient = x.T @ (x @ weights - y)  # a sum over samples: sums can be added, means cannot
    samples = torch.tensor([len(y)], dtype=gradient.dtype)
    both = torch.cat([gradient, samples])
    dist.all_reduce(both)
    return weights - learning_rate * both[:-1] / both[-1]
    ### END SOLUTION


# %%
check("sync_sgd")

# %% [markdown]
# **Answer.** The gradient of the big batch is (30 · 1 + 10 · 5) / 40 = 2. The mean of the two means is
# 3, and their sum is 6. Only sums over samples can be added up; means need their weights, 30 and 10.

# %% [markdown]
# ## `lr_scaling`: N ranks, which learning rate?
#
# **To write:** the two rules and the warm-up. **Allowed:** anything that an answer may import.
#
# Each of N ranks takes `batch_per_rank` samples in a step, as one rank did alone. So the global batch
# is N times as large, and an epoch has N times fewer steps. The learning rate that was right for one
# rank is too small now. There are two rules, with k the factor by which the global batch has grown:
#
# - **linear**: k times the rate, so that one step goes as far as k steps did (Goyal et al. 2017,
#   *Accurate, large minibatch SGD*, section 2.1);
# - **square root**: √k times the rate, so that the noise of a step keeps its size (Hoffer et al.
#   2017, *Train longer, generalize better*; Krizhevsky 2014, *One weird trick for parallelizing
#   convolutional neural networks*, page 5).
#
# Both functions are given `batch_per_rank`, as a training script has it. Neither rule needs it.
#
# Early in training, when the weights change fast, the scaled rate is often too large. So it is reached
# by a **gradual warm-up** (Goyal et al., section 2.2). Here it is defined by three values, and steps
# count from 0:
#
# - step 0 has `base_rate`, the rate of one rank;
# - each further step adds the same amount;
# - step `warm_up_steps` is the first that has the scaled rate, and all later steps keep it.
#
# With `warm_up_steps = 0` step 0 has the scaled rate already.
#
# *Before you start: one rank trains with batches of 32 and a rate of 0.1. Then eight ranks train with
# batches of 32 each. What is k? And what is k
# if each rank's batch is 64 in both cases?*

# %%
# %%answer lr_scaling
import math


def scaled_rate(base_rate: float, batch_per_rank: int, ranks: int, rule: str) -> float:
    """The learning rate for `ranks` ranks, each with batches of `batch_per_rank`.

    `base_rate` is the rate for one rank with batches of `batch_per_rank`. `rule` is "linear" or
    "sqrt".
    """
    ### BEGIN SOLUTION
    factor = ranks if rule == "linear" else math.sqrt(ranks)
    return base_rate * factor
    ### END SOLUTION


def rate_at(
    step: int, base_rate: float, batch_per_rank: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    """The learning rate of step `step` (0, 1, 2, ...), with a gradual warm-up.

    From `base_rate` at step 0 by equal amounts to the scaled rate at step `warm_up_steps`, which
    then stays. `warm_up_steps` may be 0.
    """
    ### BEGIN SOLUTION
    scaled = scaled_rate(base_rate, batch_per_rank, ranks, rule)
    if step >= warm_up_steps:
        return scaled
    return base_rate + (scaled - base_rate) * step / warm_up_steps
    ### END SOLUTION


# %%
check("lr_scaling")

# %% [markdown]
# **Answer.** k is 8 in both cases: the global batch is eight times that of one rank. The linear rule
# gives 0.8, the square-root rule 0.28.

# %% [markdown]
# ## `naive_all_reduce`: everything through one rank
#
# **To write:** the sum through rank 0. **Not allowed:** collectives (`all_reduce`, `broadcast` and
# the like), `torch.distributed.rpc`. **Allowed:** `send`, `recv`, `isend`, `irecv` and
# `batch_isend_irecv`, and what `torch` does with tensors.
#
# Every rank has a tensor, and every rank wants the sum of all of them: an *all-reduce*. The simplest
# way needs only messages from one rank to another:
#
# 1. **gather**: every rank sends its tensor to rank 0;
# 2. **add**: rank 0 adds them up;
# 3. **broadcast**: rank 0 sends the sum to every rank.
#
# `dist.send(tensor, dst=1)` sends to rank 1. `dist.recv(tensor, src=0)` returns when a message of rank
# 0 has arrived in `tensor`, which must have the shape and the dtype of what was sent. `dist.isend`
# and `dist.irecv` return at once; call `wait()` on what they return. With Gloo, a message leaves only
# when the receiver has asked for it: a `send` without its `recv` never returns.
#
# The tensor that is given must not change: the caller may still need it. The library's own
# collectives are not allowed here, because the exercise shows what is inside them.
#
# The check looks at four things. The sum, on every rank: a new tensor from each call. The tensor
# that was given. The recorded calls: `send` and `recv` only (a `barrier`, which carries no data, is
# let pass), to and from rank 0. And how many bytes each rank sends, counted by the kernel at its
# link.
#
# *Before you start: four ranks, 1 MB each, a link of 1 Gbit/s for every rank. How long is each link
# in use, in each direction? And how long does it take with eight ranks?*

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
            dist.recv(arrived, src=other)
            total += arrived
        for other in others:
            dist.send(total, dst=other)
    else:
        dist.send(tensor, dst=0)
        dist.recv(total, src=0)
    return total
    ### END SOLUTION


# %%
check("naive_all_reduce")

# %% [markdown]
# **Answer.** 1 MB takes 8 ms at 1 Gbit/s. Rank 0's link receives for 3 · 8 = 24 ms and then sends for
# 24 ms: 48 ms in all. Every other link is in use for 8 ms in each direction. With eight ranks it is
# 7 · 8 = 56 ms each way, 112 ms in all.
#
# Now with the kernel's count: 1 MB on each of four ranks. How much goes over each rank's link?

# %%
# %%ranks 4 --link 1gbit --evidence run
import torch

total = naive_all_reduce(torch.ones(250_000))

# %% tags=["nbval-ignore-output"]
for rank in run.ranks:
    if rank.traffic:
        sent, received = rank.traffic.sent_bytes / 1e6, rank.traffic.received_bytes / 1e6
        print(f"rank {rank.rank} sent {sent:.2f} MB and received {received:.2f} MB")

# %% [markdown]
# Rank 0's link carries (p−1) tensors in and then (p−1) tensors out, while each of the other links is
# idle most of the time. Each rank that you add makes rank 0's link busier.

# %% [markdown]
# ## `ring_all_reduce`: nobody sends more than anybody else
#
# **To write:** the two loops around the ring. **Not allowed:** collectives (`all_reduce`, `broadcast` and
# the like), `torch.distributed.rpc`. **Allowed:** `send`, `recv`, `isend`, `irecv` and
# `batch_isend_irecv`, and what `torch` does with tensors.
#
# Cut the tensor into p parts. Each rank sends to its right neighbour only, and rank p−1 sends to
# rank 0.
#
# - **reduce-scatter**, p−1 steps: in each step, every rank sends one part to the right, receives
#   another part from the left, and adds it to its own. A part that has been at every rank is the
#   sum. At the end each rank has one such part.
# - **all-gather**, p−1 steps: the finished parts go round, and replace what is there.
#
# Each rank sends 2 (p−1) parts of n/p bytes: 2 (p−1)/p · n, less than 2 n however many ranks there
# are. Where the ranks do the adding, no algorithm needs less (Patarasuk and Yuan 2009, *Bandwidth
# optimal all-reduce algorithms for clusters of workstations*, section 3). Horovod was written around
# this ring (Sergeev and Del Balso 2018, *Horovod: fast and easy distributed deep learning in
# TensorFlow*, section 3).
#
# **`exchange` is given.** `exchange(outgoing, right, incoming, left)` sends one part to the right and
# receives another from the left at the same time. It shows two things about messages:
#
# - A blocking `dist.send` returns only when somebody receives. If every rank sends first, all of them
#   wait. `dist.isend` and `dist.irecv` return at once, and `wait()` waits for the end.
# - The receive is posted before the send. With Gloo, as with MPI for long messages, data leaves only
#   when the receiver has reported that it is ready. If the send came first, that report would queue
#   behind the rank's own data, and the link would be idle in the other direction.
#
# What you write is which part each rank sends and receives in each step:
#
# - The sum must stand in the tensor that was given; what is returned is not looked at. (In training,
#   a second copy of all gradients takes memory that the model needs. The check does not count it.)
#   `tensor.view(-1)` is the same memory as one row, and so is each part that `tensor_split` cuts
#   from it.
# - A part that is to be added needs a place to arrive in. That place is as long as the part.
#
# The check looks at four things. The sum, also where p does not divide the length, down to a tensor
# without elements. Who sends to whom, in the recorded calls: to the right neighbour only (a
# `barrier`, which carries no data, is let pass). How many bytes each rank sends, counted by the
# kernel: 2 (p−1)/p of the tensor's. And the time on links of 100 Mbit/s,
# with 2 and with 3 ranks, for three tensors of 288 kB in a row: at most 1.25 times what so many bytes
# take.
#
# *Before you start: which part does rank 0 of 3 send in each of its four steps, and which one does it
# receive? What would happen if every rank called `dist.send` first and `dist.recv` then?*

# %%
# %%answer ring_all_reduce
import torch
import torch.distributed as dist


def exchange(outgoing: torch.Tensor, right: int, incoming: torch.Tensor, left: int) -> None:
    """Send `outgoing` to rank `right` while `incoming` is received from rank `left`.

    `incoming` is as long as the tensor that arrives, and of its dtype. Both are done on return.
    """
    receive = dist.irecv(incoming, src=left)  # first, so that the left neighbour can begin
    send = dist.isend(outgoing, dst=right)
    receive.wait()
    send.wait()


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
    ### END SOLUTION


# %%
check("ring_all_reduce")

# %% [markdown]
# **Answer.** Rank 0 sends the parts 0, 2, 1, 0 and receives 2, 1, 0, 2: it always sends what it has
# received in the step before. If every rank called `dist.send` first, no rank would come to its
# `dist.recv`: a deadlock.
#
# The bytes again, for the same 1 MB on each of four ranks:

# %%
# %%ranks 4 --link 1gbit --evidence run
import torch

ring_all_reduce(torch.ones(250_000))

# %% tags=["nbval-ignore-output"]
for rank in run.ranks:
    if rank.traffic:
        sent, received = rank.traffic.sent_bytes / 1e6, rank.traffic.received_bytes / 1e6
        print(f"rank {rank.rank} sent {sent:.2f} MB and received {received:.2f} MB")

# %% [markdown]
# All links carry the same, in both directions at once, and rank 0's carries half of what it carried
# before. More ranks change little: 2 (p−1)/p stays below 2.

# %% [markdown]
# ## `parameter_server`: one rank that everyone asks
#
# **To write:** the server and its workers. **Not allowed:** collectives (`all_reduce`, `broadcast`
# and the like), `torch.distributed.rpc`. **Allowed:** `send`, `recv`, `isend`, `irecv` and
# `batch_isend_irecv`, and what `torch` does with tensors.
#
# One rank, the *parameter server*, holds the weights. In each step it sends them to every worker, each
# worker sends its gradient back, and the server takes the step (Li et al. 2014, *Scaling distributed
# machine learning with the parameter server*). Here the server waits for all workers, so that the
# result is that of synchronous SGD.
#
# Rank 0 is the server, **and a worker too**: it has samples of its own, and their gradient counts like
# any other. All other ranks are workers. Each rank is given
#
# - `weights`, float64 (n,), different on each rank. Training starts from the server's;
# - `gradient(weights)`: the gradient of the mean loss over this rank's samples, float64 (n,). All
#   shards are equally long, so that the mean over all samples is the mean over the ranks.
#
# Ranks communicate with `dist.send(tensor, dst=...)` and `dist.recv(tensor, src=...)`, or with `isend`
# and `irecv`, and in no other way: not by a `barrier` either. The check counts bytes at each rank's
# link: in each step, each worker receives one copy of the weights and sends one gradient. (One copy
# more, before the first step or after the last, is let pass.) With one rank the server trains alone.
#
# *Before you start: 64 ranks, weights of 100 MB. How many bytes does the server send in each step, and
# how many does a worker? Which of the two decides how long a step takes?*

# %%
# %%answer parameter_server
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(
    weights: torch.Tensor,
    gradient: Callable[[torch.Tensor], torch.Tensor],
    learning_rate: float,
    steps: int,
) -> torch.Tensor:
    """On rank 0: `steps` steps of SGD with the mean of all ranks' gradients, its own among them.

    Starts from `weights`, float64 (n,), and returns the weights after the last step.
    """
    ### BEGIN SOLUTION
    ranks = dist.get_world_size()
    received = torch.empty_like(weights)
    for _ in range(steps):
        for worker in range(1, ranks):
            dist.send(weights, dst=worker)
        total = gradient(weights)
        for worker in range(1, ranks):
            dist.recv(received, src=worker)
            total = total + received
        weights = weights - learning_rate * total / ranks
    return weights
    ### END SOLUTION


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    """On every other rank: compute the gradients that the server needs, one for each step.

    `weights`, float64 (n,), are this rank's own: room for the server's.
    """
    ### BEGIN SOLUTION
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
    ### END SOLUTION


# %%
check("parameter_server")

# %% [markdown]
# **Answer.** The server sends 63 · 100 MB = 6.3 GB in each step and receives as much. A worker sends
# and receives 100 MB. The server's link decides: it needs 63 times as long as a worker's.
#
# Now counted by the kernel: 1 MB of weights, four ranks, three steps.

# %%
# %%ranks 4 --link 1gbit --evidence run
import torch

weights = torch.zeros(125_000, dtype=torch.float64)
target = torch.full_like(weights, rank)  # of this rank's samples
if rank == 0:
    weights = serve(weights, lambda w: w - target, learning_rate=0.5, steps=3)
    print(f"after 3 steps the weights are {weights[0]:.4f}, on their way to {(0 + 1 + 2 + 3) / 4}")
else:
    work(weights, lambda w: w - target, steps=3)

# %% tags=["nbval-ignore-output"]
for rank in run.ranks:
    if rank.traffic:
        sent, received = rank.traffic.sent_bytes / 1e6, rank.traffic.received_bytes / 1e6
        print(f"rank {rank.rank} sent {sent:.2f} MB and received {received:.2f} MB")

# %% [markdown]
# The server's link carries as much as the links of the three workers together. Each worker that joins
# brings samples, but makes every step longer for all. A ring's links carry nearly the same for every
# p.

# %% [markdown]
# ## `async_sgd`: who waits for whom?
#
# **To write:** the server and its workers. **Not allowed:** `torch.distributed.rpc`. **Allowed:**
# everything else that an answer may import, messages of `torch.distributed` first of all.
#
# In a synchronous step every worker waits for the slowest. An asynchronous server waits for nobody: it
# takes a step with each gradient as it arrives, and sends the new weights to that worker alone. The
# price is **staleness**: while a worker computes, the server's weights change, so its gradient
# belongs to older weights. A little staleness does little harm; without a bound training may diverge.
# *Stale synchronous parallel* training (Ho et al. 2013, section 2) sets a bound:
#
# > A worker may start its step c (counted from 0) as soon as the weights contain at least
# > c − `staleness` gradients of **every** worker, and not before.
#
# While the slowest worker is in its step k, the others may be in step k + `staleness` at most. When
# they have finished that step they wait, and have then computed `staleness` + 1 gradients more than
# the slowest. With 3, a worker that is late for a moment stops nobody. With 0, all workers are in the
# same step and have the same weights: this is synchronous SGD.
#
# Rank 0 is the server and has no samples; all other ranks are workers, and each computes `steps`
# gradients. Training starts from the server's weights. For each gradient that arrives, from any
# worker and however late, the server takes one step of SGD, `weights - learning_rate * gradient`.
# So W workers move the weights W times while `sync_sgd` moves them once, by the mean: with a
# staleness of 0, a round is a step with the **sum** of the gradients, which is a step with their mean
# and W times the learning rate. Workers that would be too far ahead get their next weights only when
# they may go on.
#
# How does the server know which worker has sent a message? `dist.recv(tensor)` **without `src`** takes
# the message that arrives first and returns the rank that sent it. (Polling `irecv` requests with
# `is_completed()` does not work: with Gloo it stays False until you wait.) With one rank there are no
# workers, and the server returns its weights as they are.
#
# The check stops one worker in the middle of a gradient, and lets it go on when all others have come
# as far as the bound allows. It measures no time.
#
# *Before you start: staleness 2, three workers, and worker 3 stops in its first gradient. How many
# gradients do workers 1 and 2 compute before they have to wait? And what must the server do when
# worker 3 goes on at last?*

# %%
# %%answer async_sgd
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    """On rank 0: a step of SGD for each of the workers' gradients, in the order in which they come.

    Starts from `weights`, float64 (n,), and returns them after `steps` gradients of each worker. No
    worker starts its step c before c - staleness gradients of every worker have been applied.
    """
    ### BEGIN SOLUTION
    workers = range(1, dist.get_world_size())
    applied = dict.fromkeys(workers, 0)  # gradients, by worker
    waiting = set()
    received = torch.empty_like(weights)
    for worker in workers:
        dist.send(weights, dst=worker)
    for _ in range(steps * len(workers)):
        worker = dist.recv(received)  # from the worker that speaks first
        weights = weights - learning_rate * received
        applied[worker] += 1
        if applied[worker] < steps:
            waiting.add(worker)
        slowest = min(applied.values())
        for ready in [w for w in waiting if applied[w] - staleness <= slowest]:
            dist.send(weights, dst=ready)
            waiting.remove(ready)
    return weights
    ### END SOLUTION


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    """On every other rank: compute `steps` gradients, each on weights from the server.

    `weights`, float64 (n,), are this rank's own: room for the server's. `gradient(weights)` is that
    of this rank's samples, float64 (n,).
    """
    ### BEGIN SOLUTION
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
    ### END SOLUTION


# %%
check("async_sgd")

# %% [markdown]
# **Answer.** Three each: the steps 0, 1 and 2 need no gradient of worker 3, and step 3 needs one. When
# worker 3's first gradient arrives, the server applies it and sends the new weights to all three.
#
# Here worker 3 sleeps in its third gradient, with a staleness of 2. Each worker's line shows which
# gradient it computes, in order of time.

# %%
# %%ranks 4 --evidence run
import time

import torch

from hpml.ranks import mark

weights, made = torch.zeros(1, dtype=torch.float64), 0


def gradient(w):
    global made
    if rank == 3 and made == 2:
        time.sleep(0.3)
    made += 1
    mark(str(made))
    return w - rank


if rank == 0:
    weights = serve(weights, learning_rate=0.05, steps=6, staleness=2)
else:
    work(weights, gradient, steps=6)

# %% tags=["nbval-ignore-output"]
events = sorted((mark.at, rank.rank, mark.name) for rank in run.ranks[1:] for mark in rank.marks)
for worker in (1, 2, 3):
    line = "".join(f"{made:>2}" if who == worker else " ·" for _, who, made in events)
    print(f"worker {worker}: {line}")

# %% [markdown]
# ## `alpha_beta`: what it will cost
#
# **To write:** the four formulas. **Allowed:** anything that an answer may import.
#
# A message of n bytes takes α + n β seconds: α seconds for the message, β seconds for each byte. To add
# takes γ seconds for each byte that is added. A rank can send one message and receive another at the
# same time. With these three numbers the cost of every algorithm can be computed before it is run
# (Thakur, Rabenseifner and Gropp 2005, *Optimization of collective communication operations in
# MPICH*, section 3). They belong to a machine and its network; your functions get them as arguments.
#
# Write the seconds that an all-reduce of n bytes takes on p ranks, by each of four algorithms:
#
# - **naive**: rank 0 receives the tensors of the others one after the other, adds each of them, and
#   sends the sum to each of the others, one after the other.
# - **tree**: in each step, half of the ranks that are left send their whole tensor to another rank,
#   which adds it; the last rank has the sum. The sum goes back down the same tree. Where p is not
#   a power of two, the number of steps is that of the next larger power.
# - **ring**: reduce-scatter and all-gather, as in `ring_all_reduce`.
# - **halving-doubling**: each rank exchanges half of the tensor with a partner and adds what it
#   receives, then half of that half with another partner, and so on, until each rank has the sum of
#   one p-th. Then all the way back, with twice as many bytes in each step. Here p is a power of two.
#
# For each algorithm, count three things on the rank that has most to do. How many messages does it
# send or receive, one after the other? How many bytes do these messages have? How many bytes does it
# add? A message that it sends while it receives another counts once, and so do its bytes. A p-th of n
# need not be a whole number.
#
# The check compares each of the three counts with the closed form. Then it measures α and β between
# two ranks on links of 100 Mbit/s, and all-reduces of 64 kB and of 192 kB on 3 and on 4 ranks. γ is
# taken as 0 there: adding is much faster than this link. With that α and β your functions must be
# within 15 % of the measured seconds.
#
# *Before you start: which of the four is the fastest for 4 bytes on 1024 ranks, and which for 1 GB?*


# %%
# %%answer alpha_beta
def naive(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """Seconds of an all-reduce of `nbytes` over `ranks`, through rank 0.

    alpha: seconds per message; beta: seconds per byte sent; gamma: seconds per byte added.
    """
    ### BEGIN SOLUTION
    others = ranks - 1
    return 2 * others * (alpha + nbytes * beta) + others * nbytes * gamma
    ### END SOLUTION


def tree(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, up a binomial tree and down again."""
    ### BEGIN SOLUTION
    steps = (ranks - 1).bit_length()  # log2, rounded up
    return 2 * steps * (alpha + nbytes * beta) + steps * nbytes * gamma
    ### END SOLUTION


def ring(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, around a ring."""
    ### BEGIN SOLUTION
    steps, part = ranks - 1, nbytes / ranks
    return 2 * steps * (alpha + part * beta) + steps * part * gamma
    ### END SOLUTION


def halving_doubling(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, by halving and doubling. `ranks` is a power of two."""
    ### BEGIN SOLUTION
    steps, share = ranks.bit_length() - 1, (ranks - 1) / ranks * nbytes
    return 2 * (steps * alpha + share * beta) + share * gamma
    ### END SOLUTION


# %%
check("alpha_beta")

# %% [markdown]
# **Answer.** For 4 bytes the messages decide: tree and halving-doubling need 20, the ring and naive
# 2,046. For 1 GB the bytes decide, again one after the other: ring and halving-doubling have just
# under 2 GB per rank, the tree 20 GB, and naive 2,046 GB, half into rank 0 and half out of it. By these formulas halving-doubling is never slower
# than the ring. In a real network its partners are far apart and share links on the way, which the
# formulas leave out; a ring's neighbours can be next to each other.

# %% [markdown]
# ## Where next
#
# The next lecture is [02 Hardware and its bottlenecks](../notebooks/02_hardware.ipynb); then come its [exercises](02_hardware.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/01_parallel_sgd.ipynb) of these exercises.
