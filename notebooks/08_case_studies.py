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
#
# Modules 01 and 06 had strong scaling (a given batch is shared out) and weak scaling (each rank has
# a batch of its own). Which of them works on your cluster is decided by the batch.
#
# Here is a step of data parallel training: compute, then average 0.5 MB of gradients over links of
# 50 Mbit/s. There are up to eight ranks, more than this machine has cores. So **the ranks only
# wait**: 4 ms for each image, in place of computing it. What they send is sent.
#
# *Predict: 32 images are shared out among eight ranks. How many times as fast as one rank are they?
# And with 256 images?*


# %%
def waiting_steps(images):
    """Three steps of a rank with `images` of its own; computing is played by waiting."""
    import time

    import torch
    import torch.distributed as dist

    from hpml.ranks import mark

    gradients = torch.ones(125_000)  # float32: 0.5 MB
    for _ in range(3):
        dist.barrier()
        mark("compute")
        time.sleep(0.004 * images)
        mark("send")
        dist.all_reduce(gradients)
        mark("done")


# %% tags=["nbval-ignore-output"]
from hpml.predict import batch_scaling
from hpml.predict.draw import Series, speed_ups
from hpml.publish import conclude, publish_figure
from hpml.ranks import launch
from hpml.trace.repetition import phases


def step_seconds(images, ranks, training=waiting_steps, link="50mbit"):
    """Seconds of both phases of the quickest step, with `images` on each rank."""
    evidence = launch(training, ranks, inputs=[images] * ranks, link=link)
    return phases(evidence, ["compute", "send", "done"])


shared = {b: {p: step_seconds(b // p, p) for p in (1, 2, 4, 8)} for b in (32, 256)}
strong = {
    b: batch_scaling.speed_up({p: sum(parts.values()) for p, parts in steps.items()})
    for b, steps in shared.items()
}
conclude(*batch_scaling.of_two_batches(strong))

# %% [markdown]
# Why these figures? With more ranks computing shrinks, and sending does not: 2(*p*−1)/*p* times the
# gradients (module 06), which is soon twice. So take the time that they are on their way, and ask
# how many images a rank computes meanwhile. Call that number *b*. Latencies left out, the speed-up of
# a batch of *B* images is
#
# $$\frac{p}{1 + (p - 1)\, b / B}$$
#
# This is Amdahl's law, and the serial share is *b*/*B*. With many ranks it comes near *B*/*b*.
#
# *Predict: β is 160 ns per byte, *n* is 0.5 MB, an image takes 4 ms. How large is *b*? What are the
# limits of the two batches?*

# %% tags=["nbval-ignore-output"]
from functools import partial

from hpml.predict.collectives import Cost

data_parallel = batch_scaling.Training(0.004, 500_000, Cost(alpha=0, beta=8 / 50e6))
many = [2**k for k in range(9)]
curves = {b: partial(data_parallel.strong, b) for b in strong}
figure = speed_ups(
    {
        f"batch of {b}": Series({p: curves[b](p) for p in many} | measured, curves[b])
        for b, measured in strong.items()
    },
    title=f"256 ranks: {data_parallel.strong(256, 256):.1f} times as fast with 256 images, "
    f"{data_parallel.strong(32, 256):.1f} times with 32",
    simulated=many[4:],
    hollow_are="predicted",
)
publish_figure(
    "strong scaling with two batches",
    figure,
    "Up to eight ranks that wait in place of computing, and send 0.5 MB of gradients over links of "
    "50 Mbit/s: measured. More ranks: predicted from the rate of the link, for a ring.",
)
conclude(*batch_scaling.of_break_even(data_parallel, strong))

# %% [markdown]
# A batch that is smaller than *b* should not be distributed at all: one rank is the fastest. A
# faster processor makes *b* larger, a faster network smaller. Overlap (section 3) hides a part of
# the sending, at most as much as backward takes.
#
# Weak scaling keeps the images of each rank.
#
# *Predict: with 64 images on each rank, which share of its images/s does each of eight ranks keep?
# Each of 256?*

# %% tags=["nbval-ignore-output"]
weak = {p: sum(step_seconds(64, p).values()) for p in (1, 8)}
conclude(*batch_scaling.of_weak(data_parallel, 64, weak))

# %% [markdown]
# The share hardly depends on the number of ranks: about 1/(1 + *b*/64). That is why published curves
# (section 3) are nearly all weak scaling. The price is the batch, and how far a batch can grow
# before the accuracy falls is no question of networks: sections 4 and 6.
#
# Was it only the waiting? Two ranks compute in earnest, a core for each: a small residual network
# with 1.2 MB of gradients, over 200 Mbit/s.
#
# *Predict: a batch of 8, and one of 256. In which of them are two ranks faster than one?*


# %%
def computing_steps(images):
    """Three steps of a rank with `images` of its own."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy

    from hpml.models import ResidualNetwork
    from hpml.ranks import mark

    model = ResidualNetwork((16, 32, 64))
    batch, labels = torch.randn(images, 3, 32, 32), torch.randint(0, 10, (images,))
    for _ in range(3):
        dist.barrier()
        mark("compute")
        cross_entropy(model(batch), labels).backward()
        mark("send")
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        dist.all_reduce(torch.cat([parameter.grad.flatten() for parameter in trained]))
        mark("done")


# %% tags=["nbval-ignore-output"]
computed = {
    b: {p: step_seconds(b // p, p, computing_steps, "200mbit") for p in (1, 2)} for b in (8, 256)
}
conclude(*batch_scaling.of_computing(computed))

# %% [markdown]
# Only the number *b* differs. On a GPU there is one effect more: a small share leaves the GPU partly
# idle, so that an image takes longer (module 04, section 5).

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
