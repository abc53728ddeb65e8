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
# In these exercises you fit a network's two constants, predict a scaling curve, find where it stops
# paying, and choose how to split a model over a cluster.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer with new inputs each time, and reports which claims hold. Check
# as often as you like; a wrong answer costs nothing. *Before you start* is a question to think about
# first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `fit_alpha_beta`: a network's two constants
#
# **To write:** the fit, and the size from which on bytes rule. **Allowed:** anything that an answer
# may import.
#
# In module 01 α and β were given. Here you have what a benchmark measured: all-reduces of 49 sizes,
# from 64 bytes to 1 GiB, each repeated ten times. All are rings, so an all-reduce of n bytes on p
# ranks takes
#
# $$2\,(p-1)\,\left(\alpha + \tfrac{n}{p}\,\beta\right)$$
#
# seconds: 2 (p−1) messages, one after the other, each of n/p bytes. α is in seconds per message, β in
# seconds per byte. On that lies noise, as on any machine that is not yours alone:
#
# - **Each size has an error of its own**, the same in all of its repetitions: some percent of the
#   time, more or less. (Buffers lie elsewhere; the library takes another protocol.)
# - **Half of the repetitions were delayed** by whatever else ran. A delay only ever adds time, often
#   half of it and more. At each size one repetition or more had no delay.
# - **Some sizes were disturbed** as a whole, on some networks: another job used the network as long as
#   they were measured. Each of their repetitions is 1.4 to 10 times too slow. These are 8 of the 49
#   sizes, small and large ones.
#
# Write two functions:
#
# - `fit_alpha_beta(sizes, seconds, ranks)` returns `(alpha, beta)`, two floats. `sizes` has bytes, in
#   ascending order; `seconds[k]` is the list of the repetitions of `sizes[k]`.
# - `half_size(alpha, beta, ranks)` returns the n at which an all-reduce spends as much time on its
#   messages (the part with α) as on its bytes (the part with β). A float. Below it the network's
#   latency rules, above it the bandwidth.
#
# An example without noise: 4 ranks, 10.4 µs for 64 bytes and 25.3 µs for 10 000 bytes. The slope is
# 14.9 µs / 9936 bytes = 1.5 ns per byte, the constant 10.3 µs. So α is 10.3 µs / 6 = 1.72 µs, and β
# is 1.5 ns / 1.5 = 1 ns per byte, which is 8 Gbit/s. Half size: 6.9 kB.
#
# The check makes up new networks each time, with 2 to 16 ranks, α from 1 µs to 1 ms, 100 Mbit/s to
# 400 Gbit/s, and half sizes from 16 kB to 4 MB. α and β are to be right
#
# | networks | noise | right to |
# |---|---|---|
# | 6 quiet | none, but for the fifth digit | 0.1 % |
# | 32 noisy | 2.7 % for each size (standard deviation), delays | 4 % each, 1.4 % together (root mean square) |
# | 12 shared | 2 % for each size, delays, 8 disturbed sizes | 4 % each |
#
# One function has to do for all of them: it is not given the kind of network.
#
# *Before you start: you draw a least-squares line through (bytes, seconds). 64 bytes take 60 µs,
# 1 GiB takes 2 s, give or take 2 %. How many times the time for 64 bytes is that 2 % of the last
# point?*


# %%
# %%answer fit_alpha_beta
import numpy as np


def fit_alpha_beta(sizes: list[int], seconds: list[list[float]], ranks: int) -> tuple[float, float]:
    """α in seconds per message and β in seconds per byte, from times of a ring's all-reduce.

    `seconds[k]` has the repetitions of an all-reduce of `sizes[k]` bytes over `ranks` ranks.
    """
    ### BEGIN SOLUTION
    # Other work only adds time: the quickest repetition has the least of it.
    quickest = np.array([min(repetitions) for repetitions in seconds])
    nbytes = np.array(sizes, dtype=float)
    weights = np.ones_like(quickest)
    for _ in range(50):
        constant, slope = line(nbytes, quickest, weights)
        error = np.abs(constant + slope * nbytes - quickest) / quickest
        # A size far off the line counts less, all the less the farther off it is (Tukey's biweight)
        spread = 1.4826 * np.median(error) + 1e-12
        weights = np.clip(1 - (error / (5 * spread)) ** 2, 0, None) ** 2
    messages = 2 * (ranks - 1)
    return constant / messages, slope / (messages / ranks)


def line(nbytes, seconds, weights):
    """Constant and slope for which the weighted sum of squared relative errors is least."""
    rows = np.sqrt(weights) / seconds
    design = np.stack([rows, nbytes / nbytes.max() * rows], axis=1)
    (constant, slope), *_ = np.linalg.lstsq(design, seconds * rows, rcond=None)
    return float(constant), float(slope / nbytes.max())
    ### END SOLUTION


def half_size(alpha: float, beta: float, ranks: int) -> float:
    """The bytes of an all-reduce whose messages take as long as its bytes."""
    ### BEGIN SOLUTION
    return ranks * alpha / beta
    ### END SOLUTION


# %%
check("fit_alpha_beta")

# %% [markdown]
# **Answer.** 2 % of 2 s are 40 ms, more than 600 times the 60 µs. Plain least squares sees the error
# of the last point and nothing of the small sizes: there its α is chance, and often negative. Divided
# by its time, each size counts alike.
#
# Half size grows with the ranks, pα/β: each of a ring's messages has only a p-th of the tensor. A
# gradient that is large on 4 ranks is small on 256. That is one more reason to send many layers'
# gradients as one.

# %% [markdown]
# ## `predict_scaling`: a scaling curve before it is paid for
#
# **To write:** the model of a step, and the fit of its two unknown constants. **Allowed:** anything
# that an answer may import.
#
# How many images/s will 256 GPUs give? You know the model, the speed of one GPU, and what the
# network is sold as. Write down what a step does, fit the two constants that nobody can know, and
# predict the rest. (It is the lecture's model in short. Buckets and waiting are simpler here: go by
# this text.) A job is a dict:
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
#   gradients are ready when backward has passed it. Some layers have none: 0 bytes.
# - In this order they go into a bucket. A bucket leaves with the layer that brings it to
#   `bucket_bytes` or beyond (a layer is never split), the rest when backward is over. Each bucket is
#   one all-reduce, which begins when the bucket leaves *and* the all-reduce before it has ended.
# - The step is over when backward is over and the last all-reduce has ended. Then comes `wait` ·
#   log2(`ranks`) seconds: a step waits for its slowest rank, and the more ranks, the later that is.
# - Only `share` of the rate across nodes is what an all-reduce gets; it changes nothing inside.
#
# The job above on 8 ranks computes for 300 ms: forward ends at 100 ms, the gradients of the second
# layer are ready at 166.7 ms, those of the first at 300 ms. The bucket of 50 MB leaves at 166.7 ms
# and takes 45.15 ms; the one of 10 MB leaves at 300 ms, finds the network free, and takes 10.15 ms:
# 8 · 60 images in 310.15 ms, 1548 images/s.
#
# **3. `fit(job, points)`** returns `(share, wait)`. `points` is a table so far, `[(ranks,
# images/s), …]`, in no order. Only **the two smallest sizes of more than one node** are fitted; all
# others are there to check the model. Two points, two constants: for each share of 0.01, 0.02, …,
# 1.00 the first point leaves one `wait`. Skip shares where that would be negative, and take the
# share with which the model comes nearest to the second point.
#
# The check makes up new jobs each time. Calls with a `share` and a `wait` come last: begin without.
# Values are to be right to 0.01 %, and the model with your constants to 0.5 % at both points. The
# last claim has eight published tables of ResNet-50: four kinds of GPU, each on two networks, one
# GPU to 16. Your `images_per_s` with your `fit` is to predict 32 GPUs within 10 % in the median and
# within 20 % in each table.
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
# ## `find_the_knee`: what to pay for
#
# **To write:** the bill, the cheapest way to meet a deadline, and the knee of a scaling curve.
# **Allowed:** anything that an answer may import.
#
# You have measured how fast a training run is on some numbers of ranks. Now it is to be paid for. A
# job is a dict:
#
# ```python
# job = {
#     "images": 72_000_000,  # of the whole run
#     "deadline": 4.0,       # hours
#     "per_node": 4,         # ranks that fit on a node
#     "node_hour": 10.0,     # money for one node and one hour
#     "worth": 0.7,          # what an added node must bring, see below
#     "measured": [(16, 9000.0), (4, 4000.0), (6, 5100.0), (3, 3300.0), (8, 7000.0)],
# }  # (ranks, images/s of all of them together), in no order
# ```
#
# Ranks fill one node after the other. **One pays for whole nodes**, also for one that is not full.
#
# **1. `bill(job, ranks, rate)`** returns `(hours, money)` of the whole run on so many ranks, at
# `rate` images/s.
#
# **2. `cheapest(job)`** returns the number of ranks, one of those measured, that costs the least of
# all that take at most `deadline` hours. Bills are rounded to whole cents (0.01) before they are
# compared. Where they are equal, the sooner one is chosen. If none is in time: `None`.
#
# **3. `find_the_knee(job)`** returns the number of ranks up to which added nodes pay, whatever the
# deadline:
#
# - Of the sizes on the same number of nodes, only the fastest counts. That is not always the one that
#   fills the nodes.
# - The smallest number of nodes gives the yardstick: its images/s, divided by that number of nodes.
# - Go up from there, from one number of nodes that was measured to the next. A step pays if the
#   images/s that it adds, divided by the nodes that it adds, are at least `worth` times the yardstick.
# - Stop before the first step that does not pay, even if a later one would.
#
# The job above, by nodes: 1 node does 4000 images/s (with 4 ranks), 2 do 7000 (with 8), 4 do 9000.
# The second node adds 3000, which is 0.75 of the yardstick of 4000: it pays. Two more add 2000, 1000
# each: 0.25. So the knee is at 8 ranks. 4 ranks take 5 hours and cost 50, 8 ranks 2.86 hours and
# 57.14, and 6 ranks 3.92 hours and 78.43, for the same two nodes. With 4 hours left, `cheapest` is 8.
#
# The check makes up new jobs each time. Hours are to be right to one in a million, money to half a
# cent. Deadlines and `worth` are never so near that rounding decides.
#
# *Before you start: a run takes 10 hours on one node. On two it takes 5.5 hours, on four 3.2. What
# does the hour cost that one saves by going from one node to two, in node-hours? And from two to four?*


# %%
# %%answer find_the_knee
import math


def bill(job: dict, ranks: int, rate: float) -> tuple[float, float]:
    """Hours, and money, of all images on `ranks` ranks that do `rate` images/s together."""
    ### BEGIN SOLUTION
    hours = job["images"] / rate / 3600
    nodes = math.ceil(ranks / job["per_node"])
    return hours, round(nodes * hours * job["node_hour"], 2)
    ### END SOLUTION


def cheapest(job: dict) -> int | None:
    """The ranks that meet the deadline for the least money; None if none do."""
    ### BEGIN SOLUTION
    found = []
    for ranks, rate in job["measured"]:
        hours, money = bill(job, ranks, rate)
        if hours <= job["deadline"]:
            found.append((money, hours, ranks))
    return min(found)[-1] if found else None
    ### END SOLUTION


def find_the_knee(job: dict) -> int:
    """The ranks up to which added nodes pay."""
    ### BEGIN SOLUTION
    fastest = {}  # by nodes: images/s, and ranks
    for ranks, rate in job["measured"]:
        nodes = math.ceil(ranks / job["per_node"])
        fastest[nodes] = max(fastest.get(nodes, (0.0, 0)), (rate, ranks))
    curve = [(nodes, *fastest[nodes]) for nodes in sorted(fastest)]
    yardstick = curve[0][1] / curve[0][0]
    chosen = curve[0]
    for after in curve[1:]:
        added = (after[1] - chosen[1]) / (after[0] - chosen[0])
        if added < job["worth"] * yardstick:
            break
        chosen = after
    return chosen[2]
    ### END SOLUTION


# %%
check("find_the_knee")

# %% [markdown]
# **Answer.** From one node to two: 11 node-hours in place of 10, for 4.5 hours less: 0.22 node-hours
# for each hour saved. From two to four: 12.8 in place of 11, for 2.3 hours less: 0.78. Each hour
# that is saved costs more than the one before. The knee is where you no longer want to pay that.

# %% [markdown]
# ## `choose_layout`: how to split a model over a cluster
#
# **To write:** the bytes and the seconds of a layout, and the search for the fastest that fits.
# **Allowed:** anything that an answer may import.
#
# Data × tensor × pipeline × sharding: on a dozen ranks there are hundreds of layouts of one
# transformer. Few fit, and of those one is fastest. Tofu and FlexFlow search such spaces. Yours is
# small enough to try everything: price each layout, and take the best.
#
# ```python
# model = {"layers": 10, "heads": 8, "width": 1000,
#          "sequences": 16, "tokens": 1000}    # a batch: 16 sequences of 1000 tokens
# cluster = {"ranks": 8, "per_node": 4, "memory": 2e9, "flops": 1e14,
#            "inside": 100e9, "across": 10e9}  # bytes and FLOP/s of a rank; its links in byte/s,
#                                              # with all ranks of the node sending
# layout = {"data": 2, "tensor": 2, "pipeline": 2, "stage": 1, "micro_batches": 4}
# ```
#
# Below, d, t, p, m are `data`, `tensor`, `pipeline`, `micro_batches`. A layout is **legal** if
# d·t·p = `ranks`, t divides `heads`, p divides `layers`, d·m divides `sequences`, and `stage` (of
# ZeRO) is 0, 1, 2 or 3. All sizes are 1 or more; m too may be any such number.
#
# **1. `nbytes(model, layout)`**: what a rank of the first stage holds at most.
#
# - The model has 12 · `layers` · `width`² parameters. A rank has n of them, one part of t·p. They
#   take 2n bytes, their gradients 2n, the optimizer's states 12n. Stage 1 divides the states by d,
#   stage 2 the gradients as well, stage 3 the parameters as well.
# - In stage 3 two of the rank's layers are whole at a time, one in use and the next: of the bytes
#   of parameters that the others hold, (d−1)/d · 2n, a rank has 2p/`layers` more, or all of them
#   with fewer than two layers.
# - A micro-batch has T = `sequences` · `tokens` / (d·m) tokens. Each keeps (10 + 24/t) · `width`
#   bytes of activations in each of the rank's `layers`/p layers. min(m, p) micro-batches are live,
#   as in 1F1B.
#
# **2. `seconds(model, cluster, layout)`** of a step. Tensor ranks are neighbours, then come the
# stages, then the data ranks, as in Llama 3. So ranks of a tensor group are 1 apart, stages t, and
# ranks of a data group t·p.
#
# **Half an all-reduce** (a reduce-scatter, or an all-gather) of B bytes among q ranks that are s apart
# takes h = B · ((g−1)/g / `inside` + (q/g−1)/q / `across`). It has two levels: g ranks of the group are
# on a node; they share their part of the sum, B/g, with their like on other nodes. g is the greatest
# common divisor of q and `per_node`/s, or 1 if s does not divide `per_node`.
#
# - A step has m + p − 1 slots. A slot is one micro-batch in one stage, forward and backward:
#   6·n·T / `flops` of compute; four all-reduces of its activations, A = 2·T·`width` bytes, for each
#   of the rank's layers, each of two halves; and with more than one stage 2 · A/t / rate, as
#   activations go on and gradients come back, of which each tensor rank sends its part. This rate
#   is `inside` if t·p divides `per_node`, else `across`.
# - After the slots come the data ranks. u is half an all-reduce of 2n bytes among them. Each time
#   something travels, it may hide behind a pass of one micro-batch, one third of a slot's *compute*
#   for forward and two thirds for backward: only what is longer than that counts.
#
# | stage | gradients, behind backward | parameters |
# |---|---|---|
# | 0 | 2u, once (all-reduce) | |
# | 1 | u, once (reduce-scatter) | u, once (all-gather), behind nothing |
# | 2 | u, for each of m micro-batches | u, once, behind nothing |
# | 3 | 2u, for each of m: gathers are among them | u, for each of m, behind forward |
#
# (From stage 2 on no rank can wait for the last micro-batch: it has no room for whole gradients.)
#
# The example: n is 30 million. 60 + 60 + 360/2 MB, and activations of 2000 tokens · 22 kB · 5 layers
# · 2 = 440 MB: `nbytes` is 740 MB. A slot is 3.6 ms of compute, 0.8 ms of all-reduces and 0.04 ms of
# sends inside a node: five slots are 22.2 ms. The two data ranks are 4 apart, each on its own node:
# u is 3 ms, of which 2.4 hide for gradients and nothing for parameters. `seconds` is 25.8 ms.
#
# **3. `choose(model, cluster)`** returns the legal layout with the least `seconds` of those whose
# `nbytes` is at most `memory`, as a dict of five ints. Any of equals will do. If no layout fits,
# return None.
#
# The check makes up new models and clusters each time, up to 24 ranks. Values are to be right to
# 0.01 %. The seconds of a choice are held to the best of all layouts, and each thing that this
# model counts decides on some cluster.
#
# *Before you start: a pipeline of 4 stages leaves a rank a quarter of the parameters. What part of
# the activations does it leave the first stage, with 8 micro-batches before and after?*


# %%
# %%answer choose_layout
from itertools import product
from math import gcd


def nbytes(model: dict, layout: dict) -> float:
    """Bytes that a rank of the first stage holds at most."""
    ### BEGIN SOLUTION
    n, tokens, layers = parts(model, layout)
    d, t, stage = layout["data"], layout["tensor"], layout["stage"]
    parameters = 2 * n / (d if stage >= 3 else 1)
    gradients = 2 * n / (d if stage >= 2 else 1)
    states = 12 * n / (d if stage >= 1 else 1)
    live = min(layout["micro_batches"], layout["pipeline"])
    activations = tokens * (10 + 24 / t) * model["width"] * layers * live
    gathered = (d - 1) / d * 2 * n * min(1, 2 / layers) if stage == 3 else 0
    return parameters + gradients + states + activations + gathered


def parts(model, layout):
    """A rank's parameters, the tokens of a micro-batch, the layers of a stage."""
    layers = model["layers"] / layout["pipeline"]
    n = 12 * layers * model["width"] ** 2 / layout["tensor"]
    tokens = model["sequences"] * model["tokens"] / layout["data"] / layout["micro_batches"]
    return n, tokens, layers
    ### END SOLUTION


def seconds(model: dict, cluster: dict, layout: dict) -> float:
    """Seconds of a step."""
    ### BEGIN SOLUTION
    n, tokens, layers = parts(model, layout)
    d, t, p = layout["data"], layout["tensor"], layout["pipeline"]
    stage, m = layout["stage"], layout["micro_batches"]
    compute = 6 * n * tokens / cluster["flops"]
    activations = 2 * tokens * model["width"]
    slot = compute + 4 * layers * 2 * half(cluster, t, 1, activations)
    if p > 1:
        near = cluster["per_node"] % (t * p) == 0
        slot += 2 * activations / t / cluster["inside" if near else "across"]
    slots = (m + p - 1) * slot

    u = half(cluster, d, t * p, 2 * n)
    forward, backward = compute / 3, compute * 2 / 3
    once, twice = max(0, u - backward), max(0, 2 * u - backward)
    gathered = max(0, u - forward)
    return slots + [twice, once + u, m * once + u, m * (twice + gathered)][stage]


def half(cluster, q, apart, size):
    """Seconds of half an all-reduce of so many bytes, on two levels."""
    on_node, rest = divmod(cluster["per_node"], apart)
    g = 1 if rest else gcd(q, on_node)
    return size * ((g - 1) / g / cluster["inside"] + (q / g - 1) / q / cluster["across"])
    ### END SOLUTION


def choose(model: dict, cluster: dict) -> dict | None:
    """The fastest legal layout that fits, or None."""
    ### BEGIN SOLUTION
    fitting = [one for one in legal(model, cluster) if nbytes(model, one) <= cluster["memory"]]
    return min(fitting, key=lambda one: seconds(model, cluster, one), default=None)


def legal(model, cluster):
    """All layouts, whether or not they fit."""
    ranks, sequences = cluster["ranks"], model["sequences"]
    for t, p in product(range(1, ranks + 1), repeat=2):
        if ranks % (t * p) or model["heads"] % t or model["layers"] % p:
            continue
        d = ranks // (t * p)
        for m, stage in product(range(1, sequences + 1), range(4)):
            if sequences % (d * m) == 0:
                yield {"data": d, "tensor": t, "pipeline": p, "stage": stage, "micro_batches": m}
    ### END SOLUTION


# %%
check("choose_layout")

# %% [markdown]
# **Answer.** All of it. A stage has a quarter of the layers, and keeps four micro-batches' worth of
# them instead of one's. A pipeline divides states, not the first stage's activations; smaller
# micro-batches, more copies and tensor ranks do that.

# %% [markdown]
# ## Where next
#
# This was the last module. `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/08_case_studies.ipynb) of these exercises.
