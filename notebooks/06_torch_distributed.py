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
# # 06 Data parallel CIFAR-10 with torch.distributed
#
# One network, one set of images, one training script, and several processes that each work on a
# share of every batch. What does each of them have to know, what do they send each other, and what
# does it cost? First by hand, then with `DistributedDataParallel`, then on a cluster.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.

# %%
# %load_ext hpml
# %matplotlib inline
from dataclasses import asdict

import torch
from torch import nn

from hpml.data import load
from hpml.distributed_environment import read
from hpml.publish import publish, publish_figure, skip
from hpml.predict.collectives import all_reduce_bytes, seconds
from hpml.ranks import launch
from hpml.trace.launch_timeline import phase_bars, timeline
from hpml.network.link import parse_rate
from hpml.trace.repetition import phases, quickest
from hpml.train import draw
from hpml.train.config import TrainConfig
from hpml.train.history import Epoch

DATA = "SYNTHETIC images, not CIFAR-10" if load().synthetic else "CIFAR-10"

# %% [markdown]
# ## 1. Who am I, and where do we meet?
#
# Nobody numbers the processes but the launcher that starts them, and it tells each one through
# environment variables. `torchrun` sets seven that matter, and `%%ranks` sets them as torchrun
# does.
#
# *Predict: which of these six are the same on both ranks?*

# %%
# %%ranks 2 --no-group
import os

for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"):
    print(f"{name:16} {os.environ[name]}")

# %% [markdown]
# All except `RANK` and `LOCAL_RANK`. `dist.init_process_group("gloo")` reads four of the seven:
# `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`. Rank 0 listens at the master's address, the
# others connect to it, and from then on they are a group. The other three are for you: the local
# rank picks a GPU.
#
# SLURM's `srun` says the same things in other words, and leaves two of them to you.
#
# *Predict: what follows is from the fourth of five tasks on three nodes. What is its rank, what is
# its local rank, and on which host does rank 0 listen?*

# %%
read(
    {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_NUM_TASKS": "5",
        "SLURM_STEP_NODELIST": "node[08-10]",
    }
)

# %% [markdown]
# Rank 3 of 5, the second on its node. The host list is compressed, and its first host is node08.
# The port comes from the job's number: every task works out the same one, and two jobs on a node do
# not collide. The local rank is not the rank: it picks the GPU, and nothing else. (`process_group`
# is your exercise on this.)

# %% [markdown]
# ## 2. Which images are mine?
#
# In an epoch every image is to be seen once, by one rank. `DistributedSampler` shuffles the numbers
# of the images with a seed that all ranks share, and rank *r* of *W* takes every *W*-th.
#
# *Predict: ten images on four ranks. How many does each rank get? How many in all?*

# %%
from torch.utils.data import DistributedSampler


def shares(epoch, set_epoch=True):
    samplers = [DistributedSampler(range(10), num_replicas=4, rank=r, seed=0) for r in range(4)]
    for sampler in samplers:
        if set_epoch:
            sampler.set_epoch(epoch)
    return [list(sampler) for sampler in samplers]


draw.shares(
    {
        "epoch 0": shares(0),
        "epoch 1: another order": shares(1),
        "epoch 1 without set_epoch: the same again": shares(1, set_epoch=False),
    },
    title="Twelve places for ten images: two of them (orange) are seen twice",
)

# %% [markdown]
# Three each, so twelve in all: every rank must take the same number of steps, or the ranks with
# more would wait for gradients that never come. Images from the start of the order fill the gap.
#
# The third panel is a bug that no error message tells you of. The sampler does not know the epoch
# unless `set_epoch` says it, and without it every epoch has the order of the first.
# (`shard_sampler` is your exercise on this.)

# %% [markdown]
# ## 3. The same gradient everywhere
#
# Each rank computes the gradient of its own share of the batch. If all of them then step with the
# *mean* of these gradients, they do what one process would do with the whole batch. Two conditions:
# they start from the same weights, and nobody steps before the mean is there.
#
# *Predict: each rank makes this network with a seed of its own. How far apart are two weights?*


# %%
def network(width=1024, layers=6):
    """A stack of linear layers, each with a million weights: 4 MB of gradients from each."""
    return nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())])


# %%
# %%ranks 2
import torch.distributed as dist


def spread(model):
    """The largest difference between a weight here and on rank 0."""
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, src=0)
    return (mine - first).abs().max().item()


torch.manual_seed(rank)
model = network()
print(f"made with a seed of its own: {spread(model):.3f}")
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)
print(f"after a broadcast from rank 0: {spread(model):.3f}")

# %% [markdown]
# Averaged gradients keep ranks together only where they started together, so every data parallel
# library begins with a broadcast. Without it each rank would train a network of its own on
# gradients that belong to another one, and the loss would still go down a little: a quiet bug.
#
# Now the mean. The plain way is one `all_reduce` for each parameter, once `backward` is done.
# `%%ranks --evidence` keeps the ledger: which rank called what, when, with how many bytes. Of eight
# steps we look at the quickest.
#
# *Predict: how many calls, and how many of them while `backward` is still at work?*

# %%
# %%ranks 2 --evidence plain
import torch.distributed as dist

from hpml.ranks import mark

torch.manual_seed(0)
model, batch = network(), torch.randn(256, 1024)
for _ in range(8):
    loss = model(batch).square().mean()
    dist.barrier()
    mark("backward begins")
    loss.backward()
    mark("backward ends")
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size
    mark("averaged")
    model.zero_grad()

# %% tags=["nbval-ignore-output"]
plain = quickest(plain, since="backward begins", until="averaged")
timeline(plain, title="One all_reduce per parameter: first compute, then communicate")

# %% [markdown]
# Twelve calls, a weight and a bias for each of six layers, and all of them after `backward`. While
# the processor computes the network is idle, and the other way round. And the six biases are
# messages of 4 KB, whose cost is nearly all latency.
#
# But the gradient of the *last* layer is ready when `backward` has hardly begun. A hook on each
# parameter can send it at once, without waiting for the answer, and a *bucket* puts several
# gradients into one message.
#
# *Predict: a bucket is sent once it holds 8 MB. How many calls are there now? When is the first?*

# %%
# %%ranks 2 --evidence hooked
import torch.distributed as dist

from hpml.ranks import mark

torch.manual_seed(0)
model, batch = network(), torch.randn(256, 1024)

buckets, size = [[]], 0  # in the order in which backward makes the gradients: last layer first
for parameter in reversed(list(model.parameters())):
    if size >= 8 * 2**20:
        buckets.append([])
        size = 0
    buckets[-1].append(parameter)
    size += parameter.nbytes
bucket_of = {parameter: bucket for bucket in buckets for parameter in bucket}
ready, in_flight = set(), []


def gradient_is_ready(parameter):
    ready.add(parameter)
    bucket = bucket_of[parameter]
    if all(p in ready for p in bucket):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        in_flight.append((dist.all_reduce(flat, async_op=True), flat, bucket))


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(gradient_is_ready)

for _ in range(8):
    loss = model(batch).square().mean()
    dist.barrier()
    mark("backward begins")
    loss.backward()
    mark("backward ends")
    for work, flat, bucket in in_flight:
        work.wait()
        parts = (flat / world_size).split([p.numel() for p in bucket])
        for parameter, part in zip(bucket, parts, strict=True):
            parameter.grad.copy_(part.view_as(parameter))
    mark("averaged")
    ready.clear()
    in_flight.clear()
    model.zero_grad()

# %% tags=["nbval-ignore-output"]
hooked = quickest(hooked, since="backward begins", until="averaged")
timeline(hooked, title="Hooks and buckets: communication hides behind backward")

# %% [markdown]
# Three calls, and the first is under way before `backward` ends: the pale part of a bar is
# communication behind which the rank computes on. Only what is left over at the end has to be
# waited for. (On a processor, sending takes time from computing; with GPUs and a network card of
# their own the overlap is nearly free.)
#
# `DistributedDataParallel` is this, in C++ and with the rough edges gone: it puts the buckets into
# the order in which gradients really come, and can keep gradients inside the buckets, so that
# nothing is copied. With `find_unused_parameters=True` it looks, after each forward pass, for
# parameters that this step does not use, and marks them as ready, so that no bucket waits for them.
# (`ddp` is your exercise: write the wrapper yourself.)

# %%
# %%ranks 2 --evidence ddp
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hpml.ranks import mark

torch.manual_seed(rank)  # DDP broadcasts rank 0's weights
model, batch = network(), torch.randn(256, 1024)
parallel = DistributedDataParallel(model, bucket_cap_mb=8, gradient_as_bucket_view=True)
for _ in range(8):
    loss = parallel(batch).square().mean()
    dist.barrier()
    mark("backward begins")
    loss.backward()
    mark("averaged")
    model.zero_grad()

# %% tags=["nbval-ignore-output"]
ddp = quickest(ddp, since="backward begins", until="averaged")
timeline(ddp, title="DistributedDataParallel: the same, inside backward")

# %% [markdown]
# What the three had to send is the same; what differs is how many messages it took, and when.


# %%
for name, evidence in (("plain", plain), ("hooks and buckets", hooked), ("DDP", ddp)):
    calls = evidence.ranks[0].calls
    print(f"{name:18} {len(calls):3} calls, {sum(c.nbytes for c in calls) / 2**20:.1f} MiB")

# %% [markdown]
# ## 4. Is it the same training?
#
# *Predict: three steps with one process on a batch of 96, and with three ranks that share the same
# batch. By how much do the weights differ in the end?*

# %%
torch.manual_seed(0)
batches = torch.randn(3, 96, 64)
targets = torch.randint(0, 10, (3, 96))


def three_steps(model, mine):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch, target in zip(batches, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch[mine]), target[mine]).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


start = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
before = {name: value.clone() for name, value in start.state_dict().items()}
alone = three_steps(start, slice(None))

# %%
# %%ranks 3 --out together
from torch.nn.parallel import DistributedDataParallel

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
model.load_state_dict(before)
together = three_steps(DistributedDataParallel(model), slice(rank, None, world_size))

# %%
print("same on all ranks:", all(torch.equal(together[0], weights) for weights in together))
print("same as alone, but for rounding:", torch.allclose(together[0], alone, atol=1e-6))

# %% [markdown]
# Not bit by bit, because a sum in another order rounds differently, but by nothing more than that:
# data parallel training with *W* ranks and a batch of *B* on each is single-process training with a
# batch of *W · B*. Remember that sentence when the learning rate comes up. (It needs equal shares,
# a loss that is a mean, and no layer that looks across the batch. Batch normalisation does; it sees
# only its own rank's share.)

# %% [markdown]
# ## 5. Real images, and twice the speed?
#
# `hpml/train/run.py` is the one training script of this course: a small residual network, SGD, DDP
# where there is more than one rank. Here it runs with a narrower network than the default, so that
# you do not wait for it.
#
# *Predict: images per second on two ranks, with one thread each, against one rank with one thread.*

# %%
small = {"widths": (24, 48, 96), "test_samples": 2000, "device": "cpu", "progress": False}
config = TrainConfig(epochs=3, samples=4000, early_size=32, lr_rule="none", **small)

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --out one --timeout 600
from hpml.train import train

one = asdict(train(config))

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --out two --timeout 600
from hpml.train import train

two = asdict(train(config))

# %% tags=["nbval-ignore-output"]
# Of the quickest epoch: other programs on the machine, and the first steps, only make it slower.
speed = {
    "1 rank": max(epoch["images_per_second"] for epoch in one[0]["epochs"]),
    "2 ranks": max(epoch["images_per_second"] for epoch in two[0]["epochs"]),
}
gain = speed["2 ranks"] / speed["1 rank"]
title = f"Two ranks are {gain:.2f} times as fast as one ({DATA})"
display(draw.speeds(speed, ideal=2 * speed["1 rank"], title=title))
publish(
    "images per second",
    speed,
    unit="images/s",
    caption=f"One thread per rank, loading included, the lecture's narrow network, on {DATA}.",
)

# %% [markdown]
# Two ranks with a core each come close to twice: gradients are small here, and within a machine
# they do not have far to go. What can stand between you and it: fewer free cores than ranks, which
# then take turns; a rank that is slower than the others, since all wait for it in every step; and
# on a cluster the network. *Efficiency* is what you got, divided by what you hoped for.


# %% tags=["nbval-ignore-output"]
print(f"efficiency of two ranks here: {gain / 2:.0%}")

# %% [markdown]
# Now train a little longer, on both ranks. *Predict: how many of the test images are right after
# four epochs of 10,000 images? Guessing has 10 %.*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --out trained --timeout 900
from hpml.train import train

trained = asdict(
    train(TrainConfig(epochs=4, samples=10_000, batch_size=125, lr_rule="none", **small))
)

# %% tags=["nbval-ignore-output"]
epochs = [Epoch(**epoch) for epoch in trained[0]["epochs"]]
right = epochs[-1].test_accuracy
publish_figure(
    "training curve",
    draw.accuracies(epochs, title=f"{right:.0%} right after {len(epochs)} epochs ({DATA})"),
    f"Accuracy on two ranks, narrow network, {len(epochs)} epochs of 10,000 images: {DATA}.",
)

# %% [markdown]
# The whole data set, the whole network and all its epochs are `./hpml train`; `./hpml bench train`
# says how far that gets on your machine, and in what time.

# %% [markdown]
# ## 6. What the network costs
#
# So far the ranks talked through the machine's memory. `--link` puts each of them behind a network
# interface of its own, which the kernel holds to a rate: a cluster's network, in a cell. (Its
# latency is this machine's: to add some, a kernel needs the module *netem*.) What went over the
# wire is the kernel's to count.
#
# *Predict: two ranks average 10 MB over links of 1 Gbit/s. How many MB does each of them send, and
# how long does that take at the least? And four ranks?*

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --link 1gbit --evidence wire --out took
from hpml.measure.comm import all_reduce_seconds

took = all_reduce_seconds(10_000_000, repeats=1)

# %% tags=["nbval-ignore-output"]
if wire.no_link:
    skip("links of a given rate", wire.no_link)
else:
    for one in wire.ranks:
        sent, received = one.traffic.sent_bytes / 1e6, one.traffic.received_bytes / 1e6
        print(f"rank {one.rank}: sent {sent:.1f} MB, received {received:.1f} MB")
least = all_reduce_bytes(4, 10_000_000)
print(f"An average of 10 MB on four ranks: {least / 1e6:.0f} MB each at the least,")
print(f"{seconds(least, 1e9):.3f} s at 1 Gbit/s; the slower of the ranks took {max(took)[0]:.3f} s")

# %% [markdown]
# Each of two ranks must send as much as it has, each of four one and a half times as much: 2
# (*p*−1)/*p* times, which comes near to twice and never gets there. That holds for every algorithm
# in which all ranks do their share (Patarasuk and Yuan 2009), and gloo's, a ring, needs no more.
# The counter shows twice the bound, because `all_reduce_seconds` warms up once, and a little for
# headers.
#
# Now a training step: compute, then average all gradients, 6.3 MB, in one call.
#
# *Predict: computing takes a tenth of a second. Over which of 10 Gbit/s, 1 Gbit/s and 100 Mbit/s
# are two ranks still worth it?*


# %%
def training_step(images):
    """Four steps on a batch of `images`; returns the bytes of the gradients."""
    import torch.distributed as dist

    from hpml.ranks import mark

    model, batch = network(width=512), torch.randn(images, 512)
    for _ in range(4):
        dist.barrier()
        mark("compute")
        model(batch).square().mean().backward()
        mark("communicate")
        gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        dist.all_reduce(gradients)
        mark("done")
    return gradients.nbytes


def cost_of(images, ranks, link):
    """Seconds of the quickest step's two phases, and the least that the second can take."""
    evidence = launch(training_step, ranks, inputs=[images] * ranks, link=link)
    least = all_reduce_bytes(ranks, evidence.values[0])
    return phases(evidence, ["compute", "communicate", "done"]), seconds(least, parse_rate(link))


# %% tags=["nbval-ignore-output"]
costs = {link: cost_of(1024, ranks=2, link=link) for link in ("10gbit", "1gbit", "100mbit")}
slow = costs["100mbit"][0]
share = slow["communicate"] / sum(slow.values())
figure = phase_bars(
    {f"2 ranks, {link}": parts for link, (parts, _) in costs.items()},
    {f"2 ranks, {link}": least for link, (_, least) in costs.items()},
    title=f"At 100 Mbit/s, {share:.0%} of a training step is waiting for gradients",
)
publish_figure(
    "a training step over three networks",
    figure,
    "Two ranks with a thread each, 6.3 MB of gradients, links held to their rate by the kernel. "
    "The black line is the least that averaging can take.",
)

# %% [markdown]
# `%%ranks` is a call of `launch`, which the cell uses here because it loops. The black line is the
# bound: bytes that must travel, over the rate of the link. At 1 Gbit/s and below communication is
# close to it, so that no library will make it much quicker; only fewer bytes, a faster network, or
# hiding it behind `backward` would.
#
# Now more ranks. *Strong* scaling shares a given batch out: each rank computes less, and sends as
# much as before. *Weak* scaling gives every rank the same amount of work, and makes the batch grow.
#
# *Predict: which of the two tolerates the slow network better?*

# %% tags=["nbval-ignore-output"]
worlds = (1, 2, 4)
costs = {f"strong, {p} × {2048 // p} images": cost_of(2048 // p, p, "1gbit") for p in worlds}
costs |= {f"weak, {p} × 512 images": cost_of(512, p, "1gbit") for p in worlds}
step = {name: sum(parts.values()) for name, (parts, _) in costs.items()}
strong = step["strong, 1 × 2048 images"] / step["strong, 2 × 1024 images"]
display(
    phase_bars(
        {name: parts for name, (parts, _) in costs.items()},
        {name: least for name, (_, least) in costs.items()},
        title=f"1 Gbit/s: two ranks do the same batch {strong:.1f} times as fast as one",
    )
)

# %% [markdown]
# Strong scaling: each rank computes less, and sends as much as before, so that each further rank
# gains less; at some number of ranks a step takes longer again. Weak scaling: each rank computes as
# much as before, and what it sends grows from 1 times the gradients on two ranks to at most 2 times
# on very many, 2 (*p*−1)/*p*. Communication then at most doubles, while twice, four times, a
# thousand times as many images go through in a step. That is why large clusters train with large
# batches, and why the next section is about what those do to the learning rate.
#
# Compare one rank with two. With more ranks than cores, ranks take turns: then both parts grow,
# which is your machine and not the method.
#
# Last, the size of the messages. This model has 128 small parameters, 2.4 MB in all.
#
# *Predict: one call for each parameter, or buckets of 64 KB, of 512 KB, or everything in one: how
# much does it matter at 1 Gbit/s?*


# %%
def average_in_buckets(bucket_bytes):
    """Average 128 gradients of 19 KB on average, in messages of up to `bucket_bytes` or of one."""
    import torch.distributed as dist

    from hpml.ranks import mark

    gradients = [torch.ones(size) for _ in range(64) for size in (96 * 96, 96)]
    buckets, room = [], 0
    for gradient in gradients:
        if gradient.nbytes > room:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(gradient)
        room -= gradient.nbytes
    for _ in range(6):
        dist.barrier()
        mark("communicate")
        for bucket in buckets:
            dist.all_reduce(torch.cat([gradient.flatten() for gradient in bucket]))
        mark("done")
    return sum(gradient.nbytes for gradient in gradients)


# %% tags=["nbval-ignore-output"]
sizes = {"one per parameter": 0, "64 KB": 2**16, "512 KB": 2**19, "all in one": 2**30}
took, bounds = {}, {}
for name, size in sizes.items():
    evidence = launch(average_in_buckets, 2, inputs=[size] * 2, link="1gbit")
    took[name] = phases(evidence, ["communicate", "done"])
    bounds[name] = seconds(all_reduce_bytes(2, evidence.values[0]), 1e9)
ratio = took["one per parameter"]["communicate"] / min(one["communicate"] for one in took.values())
display(
    phase_bars(
        took, bounds, title=f"One message per parameter takes {ratio:.1f} times as long as needed"
    )
)

# %% [markdown]
# The bytes are the same each time. What differs is how often a message has to be set up and waited
# for, and on a real network with its latency of some microseconds to milliseconds the difference is
# larger than here. Above some size bigger buckets gain nothing more, and lose the overlap with
# `backward`. DDP's default is 25 MiB, and 1 MiB for the first bucket, so that sending begins early.

# %% [markdown]
# ## 7. More ranks, another learning rate?
#
# Four ranks with the same batch on each are one process with four times the batch (section 4): four
# times fewer steps per epoch. Two rules are in use. *Linear*: four times the rate, because each
# step has to go as far as four did. *Square root*: twice the rate, because the mean of four times
# as many images has half the noise.
#
# *Predict: after three epochs, which of the three has learned most: rate unchanged, twice, four
# times? Does any of them reach one rank?*

# %%
rates = {"epochs": 3, "samples": 6000, "batch_size": 125, "lr": 0.25} | small

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --out base --timeout 600
from hpml.train import train

base = asdict(train(TrainConfig(lr_rule="none", **rates)))

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --out ruled --timeout 900
from hpml.train import train

ruled = {
    rule: asdict(train(TrainConfig(lr_rule=rule, **rates))) for rule in ("none", "sqrt", "linear")
}

# %% tags=["nbval-ignore-output"]
runs = {"1 rank": base[0]} | {f"4 ranks, {rule}": run for rule, run in ruled[0].items()}
curves = {name: [Epoch(**epoch) for epoch in run["epochs"]] for name, run in runs.items()}
best = min(ruled[0], key=lambda rule: curves[f"4 ranks, {rule}"][-1].train_loss)
draw.losses(curves, title=f"On four ranks the rule “{best}” has learned most so far ({DATA})")

# %% [markdown]
# What the plot shows: with the rate left as it was, four ranks fall behind one, since they take a
# quarter of the steps and each is as short as before. A larger rate wins part of that back. How
# much it may grow depends on network, batch and schedule, and above some size no rate helps: too
# many images then say the same thing. Warm-up, a rate that rises over the first steps, is what
# keeps a scaled rate from blowing up the untrained network. `--lr-rule` of the training script has
# all three rules; change `lr` in the cells above and see which of them breaks first.

# %% [markdown]
# ## 8. The accuracy of what, exactly?
#
# Ten test images on three ranks make shares of 4, 3 and 3. *Predict: the ranks have 4, 1 and 1
# right. Is the accuracy the mean of their accuracies?*

# %%
# %%ranks 3
import torch.distributed as dist

right, count = ((4, 4), (1, 3), (1, 3))[rank]

mean = torch.tensor(right / count)
dist.all_reduce(mean)
sums = torch.tensor([right, count])
dist.all_reduce(sums)
if rank == 0:
    print(f"mean of the ranks' accuracies: {mean.item() / world_size:.1%}")
    print(f"all that are right, of all:    {sums[0].item() / sums[1].item():.1%}")

# %% [markdown]
# Six of ten are right, 60 %. The mean of means counts an image on a small share for more. Add up
# first, over all ranks, and divide once; that goes for losses as well. And a number that only rank
# 0 worked out, on its own share, is not the accuracy of anything. (`global_metrics` is your
# exercise.)

# %% [markdown]
# ## 9. Stopped, and carried on
#
# A job has a time limit, and a cluster takes nodes away. Before it does, SLURM sends a signal, and
# the training script answers by writing a checkpoint: weights, momentum, and how far into which
# epoch it is.
#
# *Predict: the signal reaches rank 1 only, in the middle of an epoch. Which ranks stop? Which
# writes?*

# %% tags=["nbval-ignore-output"]
import tempfile

folder = tempfile.mkdtemp()
long_run = TrainConfig(
    epochs=2,
    samples=12_000,
    batch_size=100,
    lr_rule="none",
    checkpoint=folder,
    resume=True,
    **small,
)

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --timeout 600
import os
import signal
import threading

from hpml.train import train

if rank == 1:  # as SLURM would, in a moment
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
history = train(long_run)
print(f"stopped early: {history.stopped}, epochs done: {len(history.epochs)} of {long_run.epochs}")

# %% tags=["nbval-ignore-output"]
state = torch.load(f"{folder}/checkpoint.pt", weights_only=True)
position = state["position"]
print(f"in the file: {', '.join(state)}")
print(f"epoch {position['epoch'] + 1}, {position['consumed']} of 12000 images seen by both ranks")

# %% [markdown]
# Both stop, at the same step: a rank that left alone would leave the other waiting in its next
# `all_reduce`, so every ten steps they ask each other whether anybody was told to. Rank 0 writes,
# to another name first, and renames: whoever is killed on the way leaves the old file whole.
#
# How far into the epoch it was is one number, images seen by all ranks together. That makes it
# possible to carry on with *another* number of ranks. *Predict: how many images are left for a
# single rank?*

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --timeout 600
from hpml.train import train

history = train(long_run)
print(f"stopped early: {history.stopped}, epochs done: {len(history.epochs)} of {long_run.epochs}")

# %% tags=["nbval-ignore-output"]
import shutil

shutil.rmtree(folder)

# %% [markdown]
# What is left of the first epoch, and all of the second. Nothing was lost, and no image is seen
# twice. On a cluster nobody types that: the job puts itself back into the queue and finds its
# checkpoint. (`checkpoint` is your exercise, and it includes being killed while writing.)

# %% [markdown]
# ### A node is lost, and nobody starts anything anew
#
# A node that loses its power sends no signal and writes no checkpoint. `torchrun` can go on without
# it: `--nnodes=1:2` means two nodes if they come, and one if there are no more. Here two agents play
# two nodes of this machine, with one rank each; each agent is what one node of a cluster would run.

# %% tags=["nbval-ignore-output"]
from pathlib import Path

from hpml.frameworks.elastic_torchrun import nodes, torchrun_words
from hpml.train.history import read_history

folder = Path(tempfile.mkdtemp())
text = (
    "--epochs=4 --samples=3000 --test-samples=500 --batch-size=50 --widths=8,16,16 --lr-rule=none"
)
script = ["-m", "hpml.train", *text.split(), "--threads=1", "--no-progress"]
script += [f"--checkpoint={folder}", "--resume", f"--out={folder}/history.json"]
print("torchrun", *torchrun_words(2, port=29400, host=True), "\\\n   ", *script[:4], "… --resume")

# %% [markdown]
# The script writes a checkpoint after each epoch. As soon as there is the first, the second node is
# lost: its agent and its rank are killed, in the middle of the second epoch.
#
# *Predict: what happens to the rank on the other node? Which epochs does the run have in the end,
# and how many of the images of the second are trained on twice?*

# %% tags=["nbval-ignore-output"]
import time

with nodes(2, script) as (first, second):
    began = time.monotonic()
    while not (folder / "checkpoint.pt").exists() and time.monotonic() < began + 60:
        time.sleep(0.02)
    second.lose()
    lost = time.monotonic()
    code = first.wait(60)
    print(f"{lost - began:.0f} s: second node lost")
    print(f"{time.monotonic() - began:.0f} s: torchrun on the first ends with exit code {code}\n")
    log = first.log.read_text().splitlines()

print("What its rank said when the other was gone:")
said = next((line for line in log if "Error:" in line), "nothing")
print(said.split("] ")[-1].split(". ")[0])
history = read_history(folder / "history.json")
print(f"\nThe run ended on {history.world_size} rank, with these epochs:")
for epoch in history.epochs:
    images = epoch.images_per_second * epoch.seconds
    print(f"epoch {epoch.epoch}: {images:.0f} images, loss {epoch.train_loss:.3f} ({DATA})")
shutil.rmtree(folder)

# %% [markdown]
# The rank that was left failed as well, in its next `all_reduce`: there was nobody at the other end.
# Its agent saw that, waited for whoever else might come, found itself alone, and started the rank
# again, with `WORLD_SIZE=1`. Elastic means just that: *all* ranks end, and as many as there are now
# begin again. It is the checkpoint that makes one run of it. Each epoch counts every image once;
# what the two had done of the second epoch since the checkpoint was lost and had to be done again,
# which is why long epochs want checkpoints in between (`SIGUSR1` asks this script for one).
#
# Two things to keep in mind. The first node keeps the list of who is there, so losing that one ends
# the run; on a cluster it is the node to choose with care, and requeueing is what is left. And with
# half the ranks the batch is half as large: `--lr-rule` has the learning rate follow.

# %% [markdown]
# ## 10. On the cluster
#
# The same script, started by `srun` in place of `%%ranks`. *Predict: what has to change in a job
# script to go from one node to several, and from several to GPUs?*

# %%
import difflib

from hpml.paths import CHECKOUT


def job(name):
    lines = (CHECKOUT / "slurm" / name).read_text().splitlines()
    return [line for line in lines if line.startswith("#SBATCH") or "python -m" in line]


for old, new in (
    ("06_one_node.slurm", "06_several_nodes.slurm"),
    ("06_several_nodes.slurm", "06_several_nodes_gpu.slurm"),
):
    print(f"from {old} to {new}")
    changes = difflib.unified_diff(job(old), job(new), n=0, lineterm="")
    print("\n".join(line for line in changes if not line.startswith(("---", "+++", "@@"))), "\n")

# %% [markdown]
# A few numbers, and for GPUs one line that asks for them. The training script finds rank, master
# and device by itself, and gloo gives way to NCCL where there are GPUs.
#
# ```
# sbatch slurm/06_one_node.slurm --epochs 8
# squeue --me
# ```
#
# Account, partition, modules and container are the cluster's business and not the job's. They are
# in `slurm/site.sh`, the one file a site edits. Each job asks for a signal 90 seconds before its
# time is up; when the script has then stopped with a checkpoint, the job puts itself back into the
# queue.

# %% tags=["nbval-ignore-output"]
if not shutil.which("sbatch"):
    skip("a job on several nodes", "there is no SLURM here; slurm/06_*.slurm are what you submit")

# %% [markdown]
# ## 11. Who else does this for you?
#
# Every framework has the six pieces of this module; they differ in what you see of them.
#
# | | torch.distributed and DDP | PyTorch Lightning | tf.distribute.MultiWorkerMirroredStrategy |
# |---|---|---|---|
# | who starts the ranks | `torchrun`, `srun` | `Trainer(devices=2)` starts them itself, or reads torchrun's or SLURM's variables | you, one process per worker |
# | who am I | `RANK`, `WORLD_SIZE`, … | the same, read for you; `trainer.global_rank` | `TF_CONFIG`, a JSON text with the list of workers and this one's index, or a `SlurmClusterResolver` |
# | my images | `DistributedSampler`, you call `set_epoch` | puts a `DistributedSampler` into your loader and calls `set_epoch` | `tf.data` is sharded automatically, by file or by element; batch size is *global* |
# | equal start | DDP broadcasts | DDP broadcasts | variables made under `strategy.scope()` are mirrored |
# | gradients | DDP: buckets, overlap with backward | DDP underneath | all-reduce when the optimizer applies them, packed into buckets |
# | metrics | yours to add up | `self.log(…, sync_dist=True)`: a mean over ranks; torchmetrics adds up sums | Keras metrics add up sums |
# | checkpoint | yours; rank 0 writes | `ModelCheckpoint`; SLURM requeue built in | `BackupAndRestore`; every worker calls save, the chief's counts |
# | learning rate | yours to scale | yours to scale | yours to scale |
#
# Here they are on the same problem: a small network on CIFAR-10, 125 images per step on each of two
# ranks with one thread, the same number of steps. Each script is the serial one with what its
# framework asks for, in `hpml/frameworks/`; the learning rate is scaled in all of them.
#
# *Predict: which needs the fewest lines? Which is the quickest? Whose accuracy is the best?*

# %%
from hpml.frameworks.run import changes, lines_of_code, missing, run, source

SCRIPTS = {
    "PyTorch, alone": ("serial_torch", "serial_torch"),
    "PyTorch, DDP": ("serial_torch", "ddp_torch"),
    "PyTorch, Horovod": ("serial_torch", "horovod_torch"),
    "PyTorch, Lightning": ("serial_torch", "lightning_torch"),
    "Keras, alone": ("serial_keras", "serial_keras"),
    "Keras, Horovod": ("serial_keras", "horovod_keras"),
    "Keras, MultiWorkerMirroredStrategy": ("serial_keras", "multi_worker_keras"),
}

# %% tags=["nbval-ignore-output"]
print(f"{'':34} ranks  lines  steps  images/s  accuracy ({DATA})")
for name, (serial, script) in SCRIPTS.items():
    if lacking := missing(script):
        skip(name, lacking)
        continue
    ranks = 1 if script == serial else 2
    one = run(script, ranks, images=2000 * ranks, epochs=2)
    lines = lines_of_code(changes(serial, script))
    print(
        f"{name:34} {ranks:5} {lines:6} {one.steps:6} {one.images_per_second:9.0f} {one.accuracy:9.0%}"
    )

# %% [markdown]
# DDP and Horovod under PyTorch do the same arithmetic on the same images, and end with the same
# accuracy; the rest differ by initial weights and order, and after so few steps by luck. What is left
# to choose by is not in the table: who starts the ranks, who reads the errors, and what the rest of
# your code is written in. (Both lines and speed of Keras are those of `fit`, which hides the loop.)
#
# Lightning, optional here (`pip install -e '.[lightning]'`), goes furthest: what is left of the
# training script when everything that has to do with ranks is gone.

# %%
print(
    source("lightning_torch").partition("class Cifar")[2].partition("    def on_train_batch_end")[0]
)
print("…", source("lightning_torch").partition("if __name__")[2])

# %% [markdown]
# Two traps are left open: `self.log(…, sync_dist=True)` averages the ranks' means, which is exact
# only for equal shares; and the learning rate stays what it was, whatever `devices` says, unless you
# scale it as this script does.
# Keras differs in one number that is easy to miss: its `batch_size` is that of all workers
# together, so adding workers makes each one's share smaller, where in DDP it makes the batch
# larger.
#
# Whoever has written the pieces once knows where to look in each of the three. That is what the
# exercises are for: `exercises/06_torch_distributed.ipynb`.
