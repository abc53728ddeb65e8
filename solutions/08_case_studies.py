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
# ## `predict_scaling`: a scaling curve before it is paid for
#
# **To write:** the model of a step, and the fit of its two unknown constants. **Allowed:** anything
# that an answer may import.
#
# How many images/s will 256 GPUs give? You know the model, the speed of one GPU, and what the
# network is sold as. Write down what a step does, fit the two constants that nobody can know, and
# foretell the rest. A job is a dict:
#
# ```python
# job = {
#     "layers": [(2e9, 10_000_000), (1e9, 50_000_000)],  # forward order: FLOP, bytes of gradients
#     "batch": 60,                # images of each rank in a step
#     "alone": 200.0,             # images/s of one rank alone
#     "bucket_bytes": 50_000_000,
#     "network": {"per_node": 4, "inside": (5e-6, 80e9), "across": (1e-4, 16e9)},
# }  # inside a node and across nodes: α of a message in seconds, the rate in bit/s
# ```
#
# **1. `all_reduce_seconds(nbytes, ranks, network)`**: a ring all-reduce of `nbytes` takes 2(p−1)α +
# 2(p−1)/p · `nbytes` · β seconds on p ranks, with β in seconds per byte. Ranks fill one node after
# the other. A ring is as slow as its slowest link: `inside` counts only while all ranks are on one
# node.
#
# **2. `images_per_s(job, ranks, share=1.0, wait=0.0)`**: images/s of all ranks together.
#
# - One rank computes for `batch / alone` seconds in a step. A third of it is forward, the rest
#   backward: from the last layer to the first, each with a part that goes by its FLOP. A layer's
#   gradients are ready when backward has passed it.
# - In this order they go into a bucket. A bucket leaves with the layer that brings it to
#   `bucket_bytes` or beyond (a layer is never split), the rest when backward is over. Each bucket is
#   one all-reduce, which begins when the bucket leaves *and* the all-reduce before it has ended.
# - The step is over when backward is over and the last all-reduce has ended. Then comes `wait` ·
#   log2(`ranks`) seconds: somebody is always late, and the more ranks, the later.
# - Only `share` of the rate across nodes is what an all-reduce gets; it changes nothing inside.
#
# The job above on 8 ranks computes for 300 ms: forward ends at 100 ms, the gradients of the second
# layer are ready at 166.7 ms, those of the first at 300 ms. The bucket of 50 MB leaves at 166.7 ms
# and takes 45.15 ms; the one of 10 MB leaves at 300 ms, finds the network free, and takes 10.15 ms:
# 8 · 60 images in 310.15 ms, 1548 images/s.
#
# **3. `fit(job, points)`** returns `(share, wait)`. `points` is a table so far, `[(ranks,
# images/s), …]`. Only **the two smallest sizes of more than one node** are fitted; all others are
# there to check the model. Two points, two constants: for each share of 0.01, 0.02, …, 1.00 the
# first point leaves one `wait`. Skip shares where that would be negative, and take the share with
# which the model comes nearest to the second point.
#
# Calls with a `share` and a `wait` are judged last: begin without. Values are to be right to 0.01 %,
# a fit to 0.5 % of its two points. The last claim has eight published tables of ResNet-50: four
# kinds of GPU, each on two networks, one GPU to 16. Your `images_per_s` with your `fit` is to
# foretell 32 GPUs within 10 % in the median and within 20 % in each table.
#
# *Before you start: all gradients of a model need 100 ms on the network, and backward takes 120 ms.
# Can the network be hidden completely?*


# %%
# %%answer predict_scaling
import math


def all_reduce_seconds(nbytes: float, ranks: int, network: dict) -> float:
    """Seconds of a ring all-reduce of `nbytes` over `ranks`; 0 for one rank."""
    ### BEGIN SOLUTION
    alpha, rate = network["inside" if ranks <= network["per_node"] else "across"]
    return 2 * (ranks - 1) * alpha + 2 * (ranks - 1) / ranks * nbytes * 8 / rate
    ### END SOLUTION


def images_per_s(job: dict, ranks: int, share: float = 1.0, wait: float = 0.0) -> float:
    """Images per second of all ranks together."""
    ### BEGIN SOLUTION
    alpha, rate = job["network"]["across"]
    network = {**job["network"], "across": (alpha, share * rate)}
    compute = job["batch"] / job["alone"]
    all_flop = sum(flop for flop, _ in job["layers"])
    now, free, bucket = compute / 3, 0.0, 0
    for flop, nbytes in reversed(job["layers"]):
        now += compute * 2 / 3 * flop / all_flop
        bucket += nbytes
        if bucket >= job["bucket_bytes"]:
            free = max(now, free) + all_reduce_seconds(bucket, ranks, network)
            bucket = 0
    if bucket:
        free = max(now, free) + all_reduce_seconds(bucket, ranks, network)
    step = max(now, free) + wait * math.log2(ranks)
    return ranks * job["batch"] / step
    ### END SOLUTION


def fit(job: dict, points: list[tuple[int, float]]) -> tuple[float, float]:
    """The share of the rate across nodes, and the wait in seconds, from the two smallest sizes of
    more than one node."""
    ### BEGIN SOLUTION
    beyond = sorted(point for point in points if point[0] > job["network"]["per_node"])
    (first, first_rate), (second, second_rate) = beyond[:2]
    found = []
    for percent in range(1, 101):
        share = percent / 100
        without = job["batch"] * first / images_per_s(job, first, share)
        wait = (job["batch"] * first / first_rate - without) / math.log2(first)
        if wait >= 0:
            miss = abs(images_per_s(job, second, share, wait) / second_rate - 1)
            found.append((miss, share, wait))
    return min(found)[1:]
    ### END SOLUTION


# %%
check("predict_scaling")

# %% [markdown]
# **Answer.** No. The last bucket leaves when backward is over, so nothing hides its all-reduce. A
# faster network makes it shorter, and so do smaller buckets, until each one's 2(p−1)α costs more
# than that brings.

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
