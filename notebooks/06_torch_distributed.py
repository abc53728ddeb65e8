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
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline
from dataclasses import asdict

import torch
from torch import nn

from hpml.publish import conclude, publish, publish_figure, skip

# %% [markdown]
# ## 1. Who am I, and where do we meet?
#
# Processes get their numbers from the launcher that starts them, in environment variables.
# `torchrun` sets seven that matter here: the six below and `MASTER_PORT`. `%%ranks` sets them as
# torchrun does. (With `--keep` its ranks live on, and the next cell finds their variables; with
# `--on slurm --nodes 2` they are on two nodes of your cluster.)
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
# others connect to it, and from then on they are a group. The other three are for you: `GROUP_RANK`
# is the number of the node, and `LOCAL_WORLD_SIZE` is how many ranks it has. The local rank picks a
# GPU, and it has to do so before NCCL starts:
#
# ```python
# device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
# torch.cuda.set_device(device)                           # else every rank of a node takes GPU 0
# dist.init_process_group("nccl", device_id=device)       # NCCL connects at once, on this GPU
# ...
# dist.destroy_process_group()                            # the last line: NCCL ends in good order
# ```

# %% [markdown]
# ### What srun sets *(more)*
#
# SLURM's `srun` sets the same things under other names, and leaves two of them to you: where rank 0
# listens, and at which port.
#
# *Predict: what follows is from the fourth of five tasks on three nodes. What is its rank, what is
# its local rank, and on which host does rank 0 listen?*

# %%
from hpml.distributed_environment import read

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
# Rank 3 of 5, the second on its node. The list of hosts is compressed, and its first host is
# node08. In a job, `scontrol show hostnames` writes such a list out, one host a line; `read` does
# it in Python. The port comes from the job's number: every task works out the same one, and two
# jobs on a node practically always get different ones (ports repeat every 12,000 job numbers). So no job script of this course has to export `MASTER_ADDR` and
# `MASTER_PORT`. (`process_group` is the exercise on this.)

# %% [markdown]
# ## 2. Which images are mine?
#
# In an epoch every image is to be seen once, by one rank. `DistributedSampler` shuffles the numbers
# of the images with a seed that all ranks share, and rank *r* of *W* takes every *W*-th.
#
# *Predict: ten images on four ranks. How many does each rank get? How many in all?*

# %%
from torch.utils.data import DistributedSampler

from hpml.train import draw


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
        "epoch 1, no set_epoch: as epoch 0": shares(1, set_epoch=False),
    },
    title="Twelve places for ten images: two of them (orange) are seen twice",
)

# %% [markdown]
# Three each, so twelve in all: every rank must take the same number of steps, or the ranks with
# more would wait for gradients that never come. Images from the start of the order fill the gap.
#
# The third panel shows a bug without an error message. The sampler does not know the epoch unless
# you call `set_epoch`, and then every epoch has the order of the first.
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
# By up to 0.062: `nn.Linear` draws its weights between −1/√1024 and 1/√1024, which is ±0.031.
#
# Averaged gradients keep ranks together only where they started together, so every data parallel
# library begins with a broadcast. Without it each rank trains a network of its own, with gradients
# of which half belong to another network, and nothing reports an error.
#
# Now the mean. The plain way is one `all_reduce` for each parameter, once `backward` is done.
# `%%ranks --evidence NAME` records which rank called what, when, with how many bytes; `mark` puts a
# named moment beside that. Of eight steps we look at the quickest.
#
# Watch how many calls there are, and how many of them while `backward` is still at work.

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
from hpml.modules.m06_torch_distributed.lecture.buckets import bucket_picture
from hpml.trace import launch_timeline, repetition

plain = repetition.quickest(plain, since="backward begins", until="averaged")
title = "One all_reduce per parameter: first compute, then communicate"
launch_timeline.timeline(plain, title=title)

# %% tags=["nbval-ignore-output"]
calls = plain.ranks[0].calls
hidden = repetition.issued_between(plain.ranks[0], "backward begins", "backward ends")
conclude(
    len(calls) == 12 and not hidden,
    f"{len(calls)} calls, a weight and a bias for each of six layers, and {len(hidden)} of them "
    "while `backward` is at work.",
    f"there were {len(calls)} calls, {len(hidden)} of them during `backward`.",
)

# %% [markdown]
# While the processor computes the network is idle, and the other way round. And the six biases are
# messages of 4 KiB, whose cost is nearly all latency.
#
# But the gradient of the *last* layer is ready when `backward` has hardly begun. A hook on each
# parameter can send it at once, without waiting for the answer, and a *bucket* puts several
# gradients into one message. The rule here: a bucket takes gradients, last layer first, as long as
# they fit into its limit. It never holds more, except for a single gradient that is larger alone.
#
# *Predict: a bucket holds at most 10 MiB, and a layer has 4 MiB. How many calls are there now? Is
# the first one issued before `backward` ends?*

# %%
# %%ranks 2 --evidence hooked
import torch.distributed as dist

from hpml.ranks import mark

torch.manual_seed(0)
model, batch = network(), torch.randn(256, 1024)

buckets, room = [], 0  # in the order in which backward makes the gradients: last layer first
for parameter in reversed(list(model.parameters())):
    if parameter.nbytes > room:
        buckets.append([])
        room = 10 * 2**20
    buckets[-1].append(parameter)
    room -= parameter.nbytes
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
hooked = repetition.quickest(hooked, since="backward begins", until="averaged")
launch_timeline.timeline(hooked, title="Hooks and buckets: calls leave while backward is at work")

# %% tags=["nbval-ignore-output"]
calls = hooked.ranks[0].calls
hidden = repetition.issued_between(hooked.ranks[0], "backward begins", "backward ends")
conclude(
    len(calls) == 3 and len(hidden) >= 1,
    f"{len(calls)} calls, and {len(hidden)} of them are issued before `backward` ends.",
    f"there were {len(calls)} calls, {len(hidden)} of them during `backward`.",
)

# %% [markdown]
# In the timeline, a bar left of "backward ends" is communication during which the rank computes. Right
# of "backward ends" nothing is hidden any more, whatever the shade: the rank waits for one bucket at
# a time and copies it back, while the next is still in flight. Full is only the call that it waits
# in. The last bucket leaves in the last hook, when nothing is left to compute: nothing hides its way.
# (On a processor, sending takes time from computing; with GPUs, and network cards that read their
# memory, it takes little.)
#
# `DistributedDataParallel` is this, in C++ and with the rough edges gone. After the first step it
# puts the buckets into the order in which gradients really come, and it can keep gradients inside
# the buckets, so that nothing is copied. The gradients, and so the bytes, are the same each time. What
# differs is how many messages it takes, and when they leave. (`ddp` is your exercise: write the
# wrapper yourself.)

# %% [markdown]
# ### A drawing of the buckets *(more)*
#
# Here is which gradient is in which bucket, and when each bucket leaves. (This is a drawing and not a
# measurement: sending takes as long as computing in it. It counts in MB, and 8 MiB are 8.4 MB. The
# biases are too thin to be seen.)

# %%
bucket_picture(network(), 10 * 2**20)

# %% [markdown]
# ### DDP's own buckets *(more)*
#
# DDP's rule for buckets differs a little from the rule above: a bucket is closed by the gradient that
# brings it to the limit, so it may hold more. By default the limit is 25 MiB, and 1 MiB for the first
# bucket, so that sending begins early; a `bucket_cap_mb` of your own is the limit of all of them.

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
ddp = repetition.quickest(ddp, since="backward begins", until="averaged")
launch_timeline.timeline(ddp, title="DistributedDataParallel: the same, inside backward")

# %% [markdown]
# *Predict: which of the three sends the most bytes?*


# %%
for name, evidence in (("plain", plain), ("hooks and buckets", hooked), ("DDP", ddp)):
    calls = evidence.ranks[0].calls
    print(f"{name:18} {len(calls):3} calls, {sum(c.nbytes for c in calls) / 2**20:.1f} MiB")

# %% [markdown]
# None: the gradients are the same. (Headers come on top; the network counts them, and this count
# does not.)
# (The cell sets DDP's limit to 8 MiB: a bucket is closed after two layers, as above. DDP waits for
# its buckets inside `backward`, so no bar of its timeline is full.)

# %% [markdown]
# ### What DDP wants to know *(more)*
#
# | to be set | when, and what it costs |
# |---|---|
# | `find_unused_parameters=True` | Some parameters have no gradient in some steps. DDP then walks the graph after each forward pass, and marks the unused ones as ready, so that no bucket waits for them. |
# | `static_graph=True` | Every step uses the same parameters in the same way. DDP learns this from the first step, and needs no walk. |
# | `broadcast_buffers=True`, the default | Rank 0's buffers, such as running means, go to all ranks before each forward pass. Without such buffers, switch it off. |
# | `with model.no_sync():` | Gradients only add up on each rank. For accumulation over several small batches: the last one, outside of it, sends. |
# | `with model.join():` | The ranks' shares have unequal lengths, without padding. A rank without images takes part in the others' all-reduces until they are done, too. |
# | `SyncBatchNorm.convert_sync_batchnorm(model)` | Batch normalisation over the batch of all ranks, for small batches per rank. It needs GPUs, and costs a collective for each such layer, forward and backward. |
# | `torch.autocast` | Around the forward pass and the loss, as without DDP. Weights and gradients stay float32, so float32 is sent. With NCCL, `model.register_comm_hook(None, bf16_compress_hook)` sends half the bytes. |

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

# %% tags=["nbval-ignore-output"]
apart = (together[0] - alone).abs().max().item()
conclude(
    all(torch.equal(together[0], weights) for weights in together) and apart < 1e-6,
    f"The ranks have the same weights, bit for bit. From those of the single process they differ by "
    f"at most {apart:.0e}: a sum in another order rounds differently.",
    f"the weights differ by {apart:.1e}, which is more than rounding.",
)

# %% [markdown]
# So data parallel training with *W* ranks and a batch of *B* on each is single-process training
# with a batch of *W · B*. (Two rules for the learning rate, linear and square root: section 7.) It
# needs equal shares, a loss that is a mean, and no layer that looks across the batch. Batch
# normalisation does: it sees only its own rank's share, unless it is `SyncBatchNorm`.

# %% [markdown]
# ## 5. Real images, and twice the speed?
#
# `hpml/train/run.py` is the one training script of this course: a small residual network, SGD, DDP
# where there is more than one rank. Here it runs with a narrow network, to save time. The batch is
# 250 images *per rank*, so two ranks take half as many steps. (`batch_size` and `--batch-size` of this
# script are always the batch of one rank.)
#
# *Predict: how many times the images per second of one rank do two ranks have? Each rank has one
# thread.*

# %%
from hpml.data import load
from hpml.train import config, draw, history

DATA = "SYNTHETIC images, not CIFAR-10" if load().synthetic else "CIFAR-10"
small = {"widths": (24, 48, 96), "test_samples": 2000, "device": "cpu", "progress": False}
short_run = config.TrainConfig(epochs=3, samples=4000, early_size=32, lr_rule="none", **small)

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --out one --timeout 600
from hpml.train import train

one = asdict(train(short_run))

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --out two --timeout 600
from hpml.train import train

two = asdict(train(short_run))

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

# %% tags=["nbval-ignore-output"]
conclude(
    gain > 1.3,
    f"{speed['2 ranks']:,.0f} images/s against {speed['1 rank']:,.0f}: {gain:.2f} times as many, an "
    f"*efficiency* of {gain / 2:.0%}, which is the gain divided by the number of ranks. Gradients "
    "are small here, and do not have far to go within a machine.",
    f"two ranks have {gain:.2f} times the images/s of one. Two cores were not free for them.",
)

# %% [markdown]
# What keeps two ranks from being twice as fast: fewer free cores than ranks, which then take
# turns; a rank that is slower than the others, since all wait for it in every step; and on a
# cluster the network. If you ever measure *more* than twice, look at the measurement first: the
# ranks do what the single process did, and communicate besides.

# %% [markdown]
# ### Four epochs of training *(more)*
#
# Now train a little longer, on both ranks. *Predict: how many of the test images are right after
# four epochs of 10,000 images? Guessing has 10 %.*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --out trained --timeout 900
from hpml.train import train

trained = asdict(
    train(config.TrainConfig(epochs=4, samples=10_000, batch_size=125, lr_rule="none", **small))
)

# %% tags=["nbval-ignore-output"]
epochs = [history.Epoch(**epoch) for epoch in trained[0]["epochs"]]
right = epochs[-1].test_accuracy
publish_figure(
    "training curve",
    draw.accuracies(epochs, title=f"{right:.0%} right after {len(epochs)} epochs ({DATA})"),
    f"Accuracy on two ranks, narrow network, {len(epochs)} epochs of 10,000 images: {DATA}.",
)

# %% tags=["nbval-ignore-output"]
conclude(
    right > 0.2,
    f"{right:.0%} of the test images are right, where guessing has 10 %.",
    f"{right:.0%} are right: after so few steps the network has learned nearly nothing.",
)

# %% [markdown]
# `./hpml train` has the whole data set, the whole network and all its epochs; `./hpml bench train`
# measures how far that gets on your machine, and in what time.

# %% [markdown]
# ## 6. What the network costs
#
# So far the ranks talked through the machine's memory. `--link` puts each of them behind a network
# interface of its own, which the kernel holds to a rate, as on a cluster's network. (The latency
# stays that of this machine.) The kernel also counts what goes over the wire.
#
# *Predict: ranks average 10 MB each over links of 1 Gbit/s. How many MB does each of two ranks
# send, and how long does that take at the least? How many MB does each of four ranks send?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --link 1gbit --evidence two
import torch.distributed as dist

dist.all_reduce(torch.ones(2_500_000))

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --link 1gbit --evidence four
import torch.distributed as dist

dist.all_reduce(torch.ones(2_500_000))

# %% tags=["nbval-ignore-output"]
from hpml.measure import comm
from hpml.modules.m06_torch_distributed.lecture import bucket_sizes
from hpml.network.link import parse_rate
from hpml.predict import collectives, draw as scaling_curves
from hpml.ranks import launch
from hpml.trace import launch_timeline, repetition

sent = {}
if two.no_link:
    skip("links of a given rate", two.no_link)
else:
    sent = {e.world_size: max(r.traffic.sent_bytes for r in e.ranks) / 1e6 for e in (two, four)}

# %% tags=["nbval-ignore-output"]
if sent:
    least = {p: collectives.all_reduce_bytes(p, 10_000_000) / 1e6 for p in sent}
    conclude(
        all(least[p] < sent[p] < 1.1 * least[p] for p in sent),
        f"Each of two ranks sends {sent[2]:.1f} MB, where {least[2]:.0f} are due, and each of four "
        f"{sent[4]:.1f} MB, where {least[4]:.0f} are due. At 1 Gbit/s, {least[2]:.0f} MB take "
        f"{collectives.seconds(least[2] * 1e6, 1e9):.3f} s at the least.",
        f"two ranks sent {sent[2]:.1f} MB each and four {sent[4]:.1f} MB, where {least[2]:.0f} and "
        f"{least[4]:.0f} MB are due.",
    )

# %% [markdown]
# Each of two ranks must send as much as it has, each of four one and a half times as much: 2
# (*p*−1)/*p* times, which comes near to twice and never gets there. Where the ranks themselves add,
# and each sends as much as the others, no algorithm needs less (Patarasuk and Yuan 2009), and
# gloo's, a ring, needs no more. The rest is headers. (Where switches add, each rank sends its bytes
# about once: Graham et al. 2020, *SHARP Streaming-Aggregation*.)
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
    """Seconds of the quickest step's two phases, and a lower bound on the second."""
    evidence = launch(training_step, ranks, inputs=[images] * ranks, link=link)
    parts = repetition.phases(evidence, ["compute", "communicate", "done"])
    least = collectives.all_reduce_bytes(ranks, evidence.values[0])
    return parts, collectives.seconds(least, parse_rate(link))


# %% tags=["nbval-ignore-output"]
labels = {"10gbit": "10 Gbit/s", "1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}
costs = {link: cost_of(1024, ranks=2, link=link) for link in labels}
slow = costs["100mbit"][0]
share = slow["communicate"] / sum(slow.values())
figure = launch_timeline.phase_bars(
    {f"2 ranks, {label}": costs[link][0] for link, label in labels.items()},
    {f"2 ranks, {label}": costs[link][1] for link, label in labels.items()},
    title=f"At 100 Mbit/s, {share:.0%} of a training step is waiting for gradients",
)
publish_figure(
    "a training step over three networks",
    figure,
    "Two ranks with a thread each, 6.3 MB of gradients, links held to their rate by the kernel. "
    "The black line is the lower bound: bytes that must travel, over the rate of the link.",
)

# %% tags=["nbval-ignore-output"]
worth = [link for link, (parts, _) in costs.items() if parts["communicate"] < parts["compute"]]
over = {link: parts["communicate"] / least for link, (parts, least) in costs.items()}
conclude(
    worth == ["10gbit", "1gbit"],
    "Two ranks do twice the work of one in a step, so they are worth it where communicating takes "
    "less time than computing: here at 10 Gbit/s and at 1 Gbit/s, and not at 100 Mbit/s. At 1 "
    f"Gbit/s the all-reduce takes {over['1gbit']:.2f} times the lower bound, at 100 Mbit/s "
    f"{over['100mbit']:.2f} times.",
    "communicating took less time than computing over: "
    + (", ".join(labels[link] for link in worth) or "none of them"),
)

# %% [markdown]
# (`launch` is what `%%ranks` calls; the cells above need it for a loop.) Where communication is
# close to its bound, no library makes it much quicker. What helps is fewer bytes, a faster network,
# or sending during `backward`.
#
# Now more ranks. *Strong* scaling shares a given batch out: computing shrinks with 1/*p*, and
# communication does not. *Weak* scaling gives every rank the same amount of work, and makes the batch
# grow: computing stays, and the bytes that a rank sends grow from 1 times the gradients on two ranks
# to at most 2 times on very many, while the images of a step grow with *p*. So with many ranks weak
# scaling still gains where strong scaling does not. That is why large clusters train with large
# batches.
#
# The number of calls counts, too. With the same bytes in more calls, messages have to be set up and
# waited for more often: each call costs latencies, and what the library does around them. Buckets
# save calls. Above some size bigger buckets gain hardly anything, and leave later, so that less of
# their way is hidden behind `backward`.

# %% [markdown]
# ### Strong and weak scaling, measured and predicted *(more)*
#
# *Predict: two ranks share 2048 images, or have 512 images each. Which of the two, strong or weak
# scaling, tolerates the slow network better?*

# %% tags=["nbval-ignore-output"]
costs = {f"strong, {p} × {2048 // p} images": cost_of(2048 // p, p, "1gbit") for p in (1, 2)}
costs |= {f"weak, {p} × 512 images": cost_of(512, p, "1gbit") for p in (1, 2)}
step = {name: sum(parts.values()) for name, (parts, _) in costs.items()}
strong = step["strong, 1 × 2048 images"] / step["strong, 2 × 1024 images"]
weak = 2 * step["weak, 1 × 512 images"] / step["weak, 2 × 512 images"]
launch_timeline.phase_bars(
    {name: parts for name, (parts, _) in costs.items()},
    {name: least for name, (_, least) in costs.items()},
    title=f"1 Gbit/s: two ranks have {strong:.1f} times the images/s of one (strong), "
    f"{weak:.1f} times (weak)",
)

# %% tags=["nbval-ignore-output"]
conclude(
    strong > 1.1 * weak,
    f"With two ranks it is strong scaling, {strong:.1f} against {weak:.1f} times the images/s. But "
    "only because its ranks still have 1024 images each to compute on, and the others 512: the bytes "
    "are the same.",
    f"strong scaling had {strong:.1f} times the images/s with two ranks, weak scaling {weak:.1f} "
    "times: other programs had the cores.",
)

# %% [markdown]
# (The rows of one rank have a short "communicate", too: copying the gradients together.)
#
# And which of the two with more ranks? More ranks than cores would take turns here, so their time
# is not measured but predicted: computing as measured on one rank, and a ring that follows α and β
# of this link, as measured between two ranks.

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --link 1gbit --out pings
from hpml.measure.comm import ping_pong

pings = ping_pong()

# %% tags=["nbval-ignore-output"]
line = comm.fit(comm.SIZES, pings[0])
link = collectives.Cost(line.alpha, line.beta)
whole, share = (
    costs[f"{name} images"][0]["compute"] for name in ("strong, 1 × 2048", "weak, 1 × 512")
)
nbytes = sum(parameter.nbytes for parameter in network(width=512).parameters())
many = [2**k for k in range(11)]
ring = {p: collectives.all_reduce_seconds("ring", nbytes, p, link) for p in many}
strongly = {p: whole / (whole / p + ring[p]) for p in many}
weakly = {p: p * share / (share + ring[p]) for p in many}
top = max(strongly, key=strongly.get)
scaling_curves.speed_ups(
    {
        "strong, 2048 images": scaling_curves.Series(strongly | {2: strong}),
        "weak, 512 images per rank": scaling_curves.Series(weakly | {2: weak}),
    },
    title=f"1 Gbit/s, by the α–β model: strong scaling is best at {top} ranks, weak goes on",
    simulated=many[2:],
    hollow_are="predicted",
)

# %% tags=["nbval-ignore-output"]
conclude(
    link.alpha < 1e-3 and top < many[-1] and weakly[many[-1]] > 10 * strongly[top],
    f"Weak scaling. With α = {link.alpha * 1e6:.0f} µs and {line.bandwidth / 1e9:.2f} Gbit/s strong "
    f"scaling reaches {strongly[top]:.1f} times the images/s of one rank, at {top} ranks, and then "
    f"falls. Weak scaling has {weakly[64]:.0f} times at 64 ranks and {weakly[1024]:.0f} times at "
    f"1024: each rank gives {weakly[64] / 64:.0%} and {weakly[1024] / 1024:.0%} of what it gave alone. "
    f"(For two ranks the model has {strongly[2]:.1f} and {weakly[2]:.1f} times; measured were "
    f"{strong:.1f} and {weak:.1f}.)",
    f"by the model strong scaling is best at {top} ranks ({strongly[top]:.1f} times), and weak has "
    f"{weakly[1024]:.0f} times at 1024; α was {link.alpha * 1e6:.0f} µs: the machine was busy.",
)

# %% [markdown]
# α is that of this machine's virtual network. With your cluster's α the curves bend elsewhere.
#
# In weak scaling only the ring's 2 (*p*−1) latencies bend the curve in the end; a tree or
# halving-doubling has fewer (module 01).
#
# The model adds computing and communicating, as this step does; DDP hides a part. It keeps
# communication as a term of its own, which grows with *p*. Amdahl's law, fitted to such steps,
# counts communication as work that cannot be shared out, and so promises too much at many ranks.

# %% [markdown]
# ### One call, or 128 *(more)*
#
# The next model has 128 small parameters, 2.4 MB in all.
#
# *Predict: one call for each parameter, or buckets of 64 KiB, of 512 KiB, or everything in one:
# how much does it matter at 1 Gbit/s? Does a call cost two latencies, as in the model?*


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
    return sum(gradient.nbytes for gradient in gradients), len(buckets)


# %% tags=["nbval-ignore-output"]
sizes = {"one per parameter": 0, "64 KiB": 2**16, "512 KiB": 2**19, "all in one": 2**30}
averaged = {}
for name, size in sizes.items():
    evidence = launch(average_in_buckets, 2, inputs=[size] * 2, link="1gbit")
    nbytes, calls = evidence.values[0]
    took = repetition.phases(evidence, ["communicate", "done"])["communicate"]
    bound = collectives.seconds(collectives.all_reduce_bytes(2, nbytes), 1e9)
    averaged[name] = bucket_sizes.Averaged(calls, took, bound)
most, best = averaged["one per parameter"], min(averaged.values(), key=lambda one: one.seconds)
launch_timeline.phase_bars(
    {name: {"communicate": one.seconds} for name, one in averaged.items()},
    {name: one.bound for name, one in averaged.items()},
    title=f"{most.calls} calls take {most.seconds / best.seconds:.1f} times as long as the best",
)

# %% tags=["nbval-ignore-output"]
listed = "; ".join(
    f"{name}: {one.calls} call{'s' * (one.calls != 1)}, {1e3 * one.seconds:.0f} ms"
    for name, one in averaged.items()
)
listed += f". The lower bound is {1e3 * most.bound:.0f} ms."
per_call, latencies = [one.per_call for one in averaged.values()], 2 * link.alpha
conclude(
    bucket_sizes.calls_cost(averaged),
    f"{listed} Above it, a call costs {1e3 * per_call[0]:.2f} ms in the first case and "
    f"{1e3 * per_call[1]:.2f} ms in the second. The model's two latencies, 2 α, are "
    f"{1e3 * latencies:.2f} ms: a call costs {per_call[0] / latencies:.1f} and "
    f"{per_call[1] / latencies:.1f} times that.",
    f"{listed} Other programs had the cores.",
)

# %% [markdown]
# The bytes are the same each time. What differs is how often a message has to be set up and waited
# for. The model counts two messages for a call, and nothing of what the library does around them.

# %% [markdown]
# ## 7. More ranks, another learning rate? *(more)*
#
# Four ranks with the same batch on each are one process with four times the batch (section 4): four
# times fewer steps per epoch. Two rules are in use. *Linear*: four times the rate, because each
# step has to go as far as four did. *Square root*: twice the rate, because the mean of four times
# as many images has half the noise.
#
# *Predict: after three epochs, which of the three has learned most: rate unchanged, twice, four
# times? Does any of them reach one rank?*

# %%
from hpml.train import config, draw, history

rates = {"epochs": 3, "samples": 6000, "batch_size": 125, "lr": 0.25} | small

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --out base --timeout 600
from hpml.train import train

base = asdict(train(config.TrainConfig(lr_rule="none", **rates)))

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --out ruled --timeout 900
from hpml.train import train

ruled = {
    rule: asdict(train(config.TrainConfig(lr_rule=rule, **rates)))
    for rule in ("none", "sqrt", "linear")
}

# %% tags=["nbval-ignore-output"]
runs = {"1 rank": base[0]} | {f"4 ranks, {rule}": run for rule, run in ruled[0].items()}
curves = {name: [history.Epoch(**epoch) for epoch in run["epochs"]] for name, run in runs.items()}
best = min(ruled[0], key=lambda rule: curves[f"4 ranks, {rule}"][-1].train_loss)
draw.losses(curves, title=f"On four ranks the rule “{best}” has learned most so far ({DATA})")

# %% tags=["nbval-ignore-output"]
last = {name: epochs[-1].train_loss for name, epochs in curves.items()}
reached = "reaches" if last[f"4 ranks, {best}"] <= last["1 rank"] else "does not reach"
conclude(
    last["1 rank"] < last["4 ranks, none"] and best != "none",
    f"“{best}” has learned most, and {reached} one rank: its loss is {last[f'4 ranks, {best}']:.2f}, "
    f"one rank's {last['1 rank']:.2f}, and with the rate unchanged it is {last['4 ranks, none']:.2f}.",
    "the losses after three epochs are "
    + ", ".join(f"{loss:.2f} ({name})" for name, loss in last.items()),
)

# %% [markdown]
# With the rate unchanged four ranks fall behind, since they take a quarter of the steps and each is
# as short as before. How much the rate may grow depends on network, batch and schedule, and above
# some batch size no rate helps: the mean gradient hardly changes with still more images. Warm-up, a
# rate that rises over the first steps, keeps a scaled rate from blowing up the untrained network
# (module 01). `--lr-rule` of the training script has all three rules.

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
# No: six of ten are right, 60 %. In the mean of means, an image of a small share counts for more.
# Add up first, over all ranks, and divide once; the same goes for losses. And the accuracy on rank
# 0's own share is not that of the model. With the padding of section 2, some images would count twice.
# (`global_metrics` is the exercise.)

# %% [markdown]
# ### Test images without padding *(more)*
#
# *Predict: which images does a `DistributedSampler` give to each of the three ranks?*

# %%
# %%ranks 3
print("DistributedSampler:", list(DistributedSampler(range(10), shuffle=False)))
print("each image once:   ", list(range(rank, 10, world_size)))

# %% [markdown]
# Four each: images 0 and 1 are there twice, and would count twice in the accuracy. In training such
# padding does little harm. For a test, share the images out without it: the ranks may have
# different numbers of batches, as long as none calls a collective before its last batch is counted.
# DDP's own forward may be one: the first after a training step broadcasts the buffers, such as
# running means. So test with `model.module`, under `torch.no_grad()`. (The script of this course
# tests the network that is inside DDP, and averages its running means over the ranks before.)

# %% [markdown]
# ## 9. Stopped, and carried on
#
# A job has a time limit. Before it is over, SLURM sends a signal if the job asks for one, and the
# training script then writes a checkpoint. `tensors` are the weights and their momentum (and a
# running average of the weights, if the option `lookahead` asks for one). `run` are the settings that
# must not change, and `position` is how far into which epoch it is.
#
# *Predict: the signal reaches rank 1 only, in the middle of an epoch. Which ranks stop? Which
# writes?*

# %% tags=["nbval-ignore-output"]
import tempfile

from hpml.modules.m06_torch_distributed.lecture import elastic_torchrun
from hpml.train import config, history

folder = tempfile.mkdtemp()
long_run = config.TrainConfig(
    epochs=2,
    samples=12_000,
    batch_size=100,
    lr_rule="none",
    checkpoint=folder,
    resume=True,
    **small,
)

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --timeout 600 --out stopped
import os
import signal
import threading

from hpml.train import checkpoint, train

save, wrote = checkpoint.save, []
checkpoint.save = lambda *what: wrote.append(1) or save(*what)
if rank == 1:  # as SLURM would, in a moment
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
stopped = train(long_run).stopped, len(wrote)

# %% tags=["nbval-ignore-output"]
state = torch.load(f"{folder}/checkpoint.pt", weights_only=True)
position = state["position"]
print(f"in the file: {', '.join(state)}")
print(
    f"epoch {position['epoch'] + 1}, {position['consumed']} of 12000 images seen, by both ranks together"
)

# %% tags=["nbval-ignore-output"]
early, files = zip(*stopped, strict=True)
conclude(
    early == (True, True) and files[0] > 0 and files[1] == 0,
    "Both ranks stop, though only rank 1 had the signal. Rank 0 writes, and rank 1 does not.",
    f"stopped early, by rank: {early}; files written, by rank: {files}.",
)

# %% [markdown]
# They stop at the same step: if one stopped alone, the other would wait for it in the next
# `all_reduce`. So every ten steps they ask each other whether anybody had a signal. Rank 0 writes
# under another name first, and renames: if it is killed on the way, the old file is still whole.
#
# How far into the epoch it was is one number, images seen by all ranks together. That makes it
# possible to carry on with *another* number of ranks. On a cluster the job puts itself back into the
# queue, and the script finds its checkpoint.
# (`checkpoint` is the exercise, and it includes being killed while writing.)

# %% [markdown]
# ### Carried on by a single rank *(more)*
#
# Here the same run is started again, on one rank. *Predict: how many images are left for it?*

# %% tags=["nbval-ignore-output"]
# %%ranks 1 --timeout 600 --out resumed
from hpml.train import train

resumed = asdict(train(long_run))

# %% tags=["nbval-ignore-output"]
import shutil

shutil.rmtree(folder)

# %% tags=["nbval-ignore-output"]
left = 12_000 - position["consumed"]
counted = [round(e["images_per_second"] * e["seconds"]) for e in resumed[0]["epochs"]]
conclude(
    counted == [12_000, 12_000] and not resumed[0]["stopped"],
    f"{left:,} images: the rest of epoch {position['epoch'] + 1}. After that it does the epochs "
    f"that follow, up to {long_run.epochs}. With those seen before the stop, each epoch has counted "
    f"{counted[0]:,} images, as many as there are.",
    f"the epochs have counted {counted} images, where 12,000 are due in each of 2.",
)

# %% [markdown]
# ### A node is lost, and the run goes on without it *(more)*
#
# A node that loses its power sends no signal and writes no checkpoint. `torchrun` can go on without
# it: `--nnodes=1:2` means two nodes if they come, and one if there are no more. Here two agents
# play two nodes of this machine, with one rank each; each agent is what one node of a cluster would
# run.

# %% tags=["nbval-ignore-output"]
from pathlib import Path

folder = Path(tempfile.mkdtemp())
text = (
    "--epochs=4 --samples=3000 --test-samples=500 --batch-size=50 --widths=8,16,16 --lr-rule=none"
)
script = ["-m", "hpml.train", *text.split(), "--threads=1", "--no-progress"]
script += [f"--checkpoint={folder}", "--resume", f"--out={folder}/history.json"]
words = elastic_torchrun.torchrun_words(2, port=29400, host=True)
print("torchrun", *words, "\\\n   ", *script[:4], "… --resume")

# %% [markdown]
# The script writes a checkpoint after each epoch. As soon as there is the first, the second node is
# lost: its agent and its rank are killed, in the middle of the second epoch.
#
# *Predict: what happens to the rank on the other node? Which epochs does the run have in the end?
# And what of the second epoch is trained on twice?*

# %% tags=["nbval-ignore-output"]
loss = elastic_torchrun.lose_second_node(script, folder / "checkpoint.pt")
print(f"{loss.lost:.0f} s: second node lost")
print(f"{loss.ended:.0f} s: torchrun on the first ends with exit code {loss.exit_code}\n")
print(f"The error of its rank when the other was gone:\n{loss.error}\n")
finished = history.read_history(folder / "history.json")
for epoch in finished.epochs:
    images = epoch.images_per_second * epoch.seconds
    print(f"epoch {epoch.epoch}: {images:.0f} images, loss {epoch.train_loss:.3f} ({DATA})")
shutil.rmtree(folder)

# %% tags=["nbval-ignore-output"]
conclude(
    loss.exit_code == 0 and finished.world_size == 1 and len(finished.epochs) == 4,
    f"The rank on the other node fails too. The run ends with all {len(finished.epochs)} epochs, on "
    f"{finished.world_size} rank. What was done of the second epoch before the loss is done again.",
    f"torchrun ended with {loss.exit_code}, after {len(finished.epochs)} of 4 epochs.",
)

# %% [markdown]
# The rank that was left failed in its next `all_reduce`: there was nobody at the other end. Its
# agent saw that, waited for others, found itself alone, and started the rank again, with
# `WORLD_SIZE=1`. Elastic means just that: *all* ranks end, and as many as there are now begin
# again, from the checkpoint. Long epochs want checkpoints in between (`SIGUSR1` asks this script
# for one).
#
# Two things to keep in mind. The first node keeps the list of who is there, so losing that one ends
# the run, and then only the queue helps (`--requeue`). And with half the ranks the batch is half as
# large: with `--lr-rule=linear` or `sqrt` the learning rate follows.

# %% [markdown]
# ## 10. On the cluster
#
# On one machine the ranks share its memory. On a cluster a gradient takes several links on its way,
# and the slowest of them limits its rate. The picture has two nodes with four GPUs each.

# %%
from hpml.cluster.job_script import job_changes
from hpml.modules.m06_torch_distributed.lecture import cluster_links, cluster_picture

publish_figure("links of a cluster", cluster_picture.cluster(), cluster_links.caption())

# %% [markdown]
# The same script, started by `srun` in place of `%%ranks`. *Predict: what has to change in a job
# script to go from one node to several, and from several to GPUs?*

# %%
print(job_changes("06_one_node.slurm", "06_several_nodes.slurm"), end="\n\n")
print(job_changes("06_several_nodes.slurm", "06_several_nodes_gpu.slurm"))

# %% [markdown]
# A few numbers, and for GPUs one line that asks for them and the option `--device cuda`. The
# training script finds rank, master and port in SLURM's variables, takes the GPU of its local rank,
# and uses NCCL in place of gloo.
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
import shutil

if not shutil.which("sbatch"):
    skip("a job on several nodes", "there is no SLURM here; slurm/06_*.slurm are what you submit")

# %% [markdown]
# ## 11. A job that hangs
#
# `%%ranks` and `check` notice when no rank can go on. A cluster does not: the log stops growing,
# and the job runs on until its time limit. Here is such a job, for three ranks. It can be started
# with one of two bugs: with "stuck", rank 1's storage does not answer; with "short", rank 1 has one
# batch less.

# %%
from hpml.modules.m06_torch_distributed.lecture import hang

print(hang.listing())

# %% [markdown]
# `torchrun` starts it with "stuck", and after step 1 nothing more is printed.
# [py-spy](https://github.com/benfred/py-spy) shows the stack of a running process from outside:
# `py-spy dump --pid 4711`, on the node where it runs. The next cell asks it for each rank until
# twice in a row no rank has moved, and prints where each rank is in the script.
#
# *Predict: on which line is rank 0? On which is rank 1?*

# %% tags=["nbval-ignore-output"]
places = hang.show_stacks("stuck")

# %% tags=["nbval-ignore-output"]
if places:
    conclude(
        len({place.call for place in places if place.rank != 1}) == 1
        and places[1].function == "read_batch",
        f"Two ranks wait in `{places[0].call}`. Rank 1 is in `{places[1].call}`, line "
        f"{places[1].line}: the rank to blame is the one that is *not* where the others are.",
        "no single rank was elsewhere.",
    )

# %% [markdown]
# Sometimes nobody is there to look. Then the job itself has to report, and every wait needs a
# limit: `init_process_group(timeout=...)`. Its default is 30 minutes, with NCCL 10. Below it is 3
# seconds.
#
# *Predict: which rank does the error message name?*

# %% tags=["nbval-ignore-output"]
limited = hang.complaints("stuck")
for rank, error in limited.items():
    print(f"rank {rank}: {error}")

# %% tags=["nbval-ignore-output"]
conclude(
    len(limited) > 0 and 1 not in limited,
    f"Only ranks that waited: {' and '.join(map(str, limited))}. The limit ends the job, but the "
    "error is that of a rank that waited. So is torchrun's “root cause”: it is only the first rank "
    "that failed.",
    f"errors came from the ranks {list(limited)}.",
)

# %% [markdown]
# With DDP the collectives are inside `backward`. So if one rank takes another branch, or skips a
# batch, the other ranks hang there. (`find_the_hang` is the exercise on this: name the rank, the
# call and the line.)

# %% [markdown]
# ### A barrier that names the rank *(more)*
#
# `dist.monitored_barrier()` is a barrier in which every rank reports to rank 0. To search for a
# hang, put it in front of the line that you suspect. (Gloo only; beside NCCL, make a second group
# with gloo for it.)
#
# *Predict: which rank does the error name now? Does it name the line?*

# %% tags=["nbval-ignore-output"]
monitored = hang.complaints("stuck", monitor=True)
for rank, error in monitored.items():
    print(f"rank {rank}: {error}")

# %% tags=["nbval-ignore-output"]
conclude(
    "Rank 1 failed to pass" in monitored.get(0, ""),
    "Rank 0 names rank 1. But not the line: for that, look at its stack.",
    "rank 0 did not report who was missing.",
)

# %% [markdown]
# ### Calls that do not fit *(more)*
#
# Now the other bug, "short". All ranks are in a collective, and still nobody moves: rank 1 has left
# the loop and waits in the barrier of line 35, the others in `all_reduce`.
# `TORCH_DISTRIBUTED_DEBUG=DETAIL` compares the calls of all ranks before each collective is run. It
# costs time: use it to search, not in every run.
#
# *Predict: which call does each rank report of itself?*

# %% tags=["nbval-ignore-output"]
detailed = hang.complaints("short", detail=True)
for rank, error in detailed.items():
    print(f"rank {rank}: {error}")

# %% tags=["nbval-ignore-output"]
own = {rank: error.partition(", but")[0].split()[-1] for rank, error in detailed.items()}
conclude(
    len(own) > 0 and all(own[rank] == ("BARRIER" if rank == 1 else "ALLREDUCE") for rank in own),
    f"What each rank reports of itself: {', '.join(f'{call} on rank {rank}' for rank, call in own.items())}. "
    "Read only that half of a message: what it reports of another rank is garbled here, since the "
    "compared records have different lengths.",
    f"the ranks reported {own}.",
)

# %% [markdown]
# ### What helps on a cluster *(more)*
#
# | on a cluster | what it gives you |
# |---|---|
# | `srun --jobid=4711 --overlap --nodelist=n2 py-spy dump --pid …` | the stack of a rank, while it hangs. Where the site forbids it: `faulthandler.register(signal.SIGUSR2)` in the script, then `scancel --signal=USR2 4711.0`: each rank prints its stack into the log |
# | `init_process_group(timeout=timedelta(minutes=5))` | an end, with an error from ranks that waited |
# | `monitored_barrier`, `TORCH_DISTRIBUTED_DEBUG=DETAIL` | the rank that did not come; the calls that do not fit |
# | NCCL: `TORCH_NCCL_ASYNC_ERROR_HANDLING`, on by default | a GPU's wait has a limit too: a watchdog thread ends the process |
# | NCCL's *flight recorder*: `TORCH_NCCL_DUMP_ON_TIMEOUT=1`; `TORCH_FR_BUFFER_SIZE` (before: `TORCH_NCCL_TRACE_BUFFER_SIZE`) is 2000 by default | each rank keeps its last 2000 collectives, with stacks, and writes them to a file when time is up; `torchfrtrace` compares the files |

# %% [markdown]
# ## 12. Who else does this for you? *(more)*
#
# Every framework has the same pieces as this module; they differ in what you see of them.
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
# Here they train a small network on CIFAR-10, with 125 images per step on each of two ranks with one
# thread. One process alone sees half as many images in as many steps, with the rate unscaled. Each
# script is the serial one with what its framework asks for, in `hpml/frameworks/`; on two ranks the
# learning rate is scaled.
#
# *Predict: which needs the fewest lines? Is one of those on two ranks clearly the quickest?*

# %%
from hpml.frameworks.run import changes, lines_of_code, missing, run, source
from hpml.modules.m06_torch_distributed.lecture import side_by_side

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
results, added = {}, {}
for name, (serial, script) in SCRIPTS.items():
    if lacking := missing(script):
        skip(name, lacking)
        continue
    ranks = 1 if script == serial else 2
    one = results[name] = run(script, ranks, images=2000 * ranks, epochs=2)
    lines = added[name] = lines_of_code(changes(serial, script))
    print(
        f"{name:34} {ranks:5} {lines:6} {one.steps:6} {one.images_per_second:9.0f} {one.accuracy:9.0%}"
    )

# %% tags=["nbval-ignore-output"]
found = side_by_side.compare(results, added, alone="PyTorch, alone", ddp="PyTorch, DDP")
quickest = (
    f"{found.quickest}, {found.ahead:.2f} times as quick as the next"
    if found.ahead >= side_by_side.MARGIN
    else f"no one; {' and '.join([found.quickest, *found.close])} are within "
    f"{side_by_side.MARGIN:g} times of each other"
)
conclude(
    found.held,
    f"Fewest lines: {' and '.join(found.shortest)}. Quickest: {quickest}. DDP has {found.gain:.2f} "
    "times the images/s of PyTorch alone"
    + (
        "; more than twice is not a gain, but the error of so short a measurement."
        if found.gain > 2
        else "."
    ),
    "the scripts did not take the same number of steps.",
)

# %% [markdown]
# DDP and Horovod under PyTorch do the same arithmetic on the same images, so their accuracies
# differ by rounding alone. The others start from other weights and take another order of images:
# after so few steps, differences in accuracy mean nothing. Each was measured once, for some
# seconds, so small differences in speed mean nothing either. What to choose by is not in the table:
# who starts the ranks, who reads the errors, and what the rest of your code is written in.
# (Keras's line count and speed include `fit`, which hides the loop.)
#
# Lightning, optional here (`pip install -e '.[lightning]'`), hides most: this is what is left of
# the training script.

# %%
print(
    source("lightning_torch").partition("class Cifar")[2].partition("    def on_train_batch_end")[0]
)
print("…", source("lightning_torch").partition("if __name__")[2])

# %% [markdown]
# Two traps are left: `self.log(…, sync_dist=True)` averages the ranks' means, which is exact
# only for equal shares; and the learning rate stays what it was, whatever `devices` is, unless you
# scale it, as this script does where it makes the optimizer (not shown above).
# MultiWorkerMirroredStrategy differs in one number that is easy to miss: its batch is the *global*
# one, of all workers together, so adding workers makes each one's share smaller. With DDP, with
# Horovod (under Keras, too) and in this course's script, it is the batch of one rank, and adding
# ranks makes the global batch larger.

# %% [markdown]
# ## What to take home
#
# 1. Data parallel training is an equal start, the mean of the gradients in every step, and each
#    image on one rank: then *W* ranks with a batch of *B* do what one process does with *W · B*.
# 2. Communication costs bytes over the rate, and latencies and more for each call: buckets save
#    calls, hooks hide a part of both behind `backward`, and with many ranks weak scaling still gains
#    where strong scaling does not.
# 3. When a job hangs, the rank to blame is the one that is not where the others wait: give every
#    wait a limit, and look at the stacks.
#
# **Now:** `exercises/06_torch_distributed.ipynb`, first `shard_sampler`, `ddp` and `ddp_train`.

# %% [markdown]
# ### Where to read on *(more)*
#
# - Li et al. 2020, *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB,
#   sections 3 (buckets, overlap) and 5 (what they gain): https://arxiv.org/abs/2006.15704
# - Goyal et al. 2017, *Accurate, Large Minibatch SGD*, section 2 (learning rate) and section 3
#   (subtleties): https://arxiv.org/abs/1706.02677
# - PyTorch's notes on [DDP](https://docs.pytorch.org/docs/stable/notes/ddp.html), and its page on
#   [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), "Debugging"
# - [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html): its variables, elastic runs

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/06_torch_distributed.ipynb) of this module: first `shard_sampler`, `ddp`, `ddp_train`; for the evening `process_group`, `global_metrics`, `checkpoint`, `find_the_hang`.
