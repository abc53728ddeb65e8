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
# # 01 Parallel computing for deep learning
#
# Training is one line, over and over: weights minus learning rate times gradient. The gradient is a
# sum over many samples, and a sum can be shared out. What does that gain, what does it change, and
# who adds the pieces up?
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.

# %%
# %load_ext hpml
# %matplotlib inline
import numpy as np
import torch
from torch import nn

from hpml.allreduce import ALGORITHMS, all_reduce
from hpml.publish import publish_figure, skip
from hpml.ranks import launch
from hpml.trace.repetition import phases

torch.set_num_threads(1)  # as on the ranks

# %% [markdown]
# ## 1. How much faster can it get?
#
# *Strong scaling*: the same work on more ranks. Here it is one training step of a small network on
# 1024 samples, with each of *p* ranks taking 1024/*p*. Forward and backward are shared out. The
# update of the weights is not: every rank makes the whole of it.
#
# *Predict: how many times as fast are two ranks? Sixteen? A thousand?*


# %%
def network(width=512, layers=4):
    return nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())])


def training_steps(samples):
    """Ten steps, with `samples` for this rank in each."""
    import torch.distributed as dist

    from hpml.ranks import mark

    torch.manual_seed(0)
    model, batch = network(), torch.randn(samples, 512)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(10):
        dist.barrier()
        mark("begin")
        model(batch).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        mark("end")
        optimizer.zero_grad()


def step_seconds(samples, ranks):
    """Of the quickest step."""
    evidence = launch(training_steps, ranks, inputs=[samples] * ranks)
    return phases(evidence, ["begin", "end"])["begin"]


# %% [markdown]
# One and two ranks are measured as they are. This machine need not have cores for more, so 4, 8 and
# 16 are simulated: two ranks do what two of the 16 would do, each on its 64 samples. (What they send
# each other does not shrink either, so it counts as serial.)

# %% tags=["nbval-ignore-output"]
from hpml.predict.draw import Series, speed_ups
from hpml.predict.scaling import fit_amdahl

strong = {p: step_seconds(1024 // p, ranks=min(p, 2)) for p in (1, 2, 4, 8, 16)}
weak = {p: step_seconds(1024, ranks=p) for p in (1, 2)}
model = fit_amdahl(list(strong), list(strong.values()))
share, thousand = model.serial_fraction, model.seconds(1) / model.seconds(1000)
figure = speed_ups(
    {
        "strong scaling": Series(
            {p: strong[1] / seconds for p, seconds in strong.items()},
            lambda p: model.seconds(1) / model.seconds(p),
        ),
        "weak scaling": Series(
            {p: p * weak[1] / seconds for p, seconds in weak.items()},
            lambda p: share + (1 - share) * p,
        ),
    },
    title=f"{share:.0%} is not shared out: a thousand ranks are {thousand:.1f} times as fast as one",
    simulated=[p for p in strong if p > 2],
)
publish_figure(
    "strong and weak scaling",
    figure,
    "One training step on 1 and 2 ranks of one thread each, and the share of one rank of 4, 8, 16; "
    "lines: Amdahl's and Gustafson's models with one serial part, fitted to strong scaling.",
)

# %% [markdown]
# Time on *p* ranks is *serial + parallel/p*. However many ranks there are, the serial part stays:
# the speed-up ends at 1 over the serial share (Amdahl 1967). *Efficiency*, speed-up over ranks,
# falls all the way.
#
# *Weak scaling* lets the work grow with the ranks: each keeps its 1024 samples, so what is shared
# out grows and what is not does not (Gustafson 1988, Reevaluating Amdahl's law). That curve goes on
# rising. It answers another question, though: more work in the same time, and for SGD that means a
# larger batch. Sections 3 and 4 are about whether you want one. (`amdahl` is your exercise.)

# %% [markdown]
# ## 2. What can be cut?
#
# A training step has a batch and it has layers. Ranks can share either, or both.
#
# *Predict: in which of these does a rank need all the weights? In which does it need to see the
# others' samples?*

# %%
from hpml.predict.draw import cuts
from hpml.predict.parallelism import (
    Network,
    data_parallel,
    hybrid,
    layer_parallel,
    tensor_parallel,
)

example = Network(layers=4, width=1024, batch=256)
plans = [
    data_parallel(example, ranks=4),
    tensor_parallel(example, ranks=4),
    layer_parallel(example, ranks=4),
    hybrid(example, groups=2, stages=2, micro_batches=8),
]
cuts(plans, title="One step on four ranks: each cell is a share of the batch and of the weights")

# %% [markdown]
# *Predict: which of them sends the most, which the least? Which leaves ranks idle?*

# %%
print(f"{'':26}{'weights':>9}{'sent':>9}{'idle':>7}  what is sent")
for plan in [*plans[:3], layer_parallel(example, ranks=4, micro_batches=8), plans[3]]:
    weights, sent = plan.weights / 1e6, plan.sent / 1e6
    print(f"{plan.name:26}{weights:6.1f} MB{sent:6.1f} MB{plan.idle:7.0%}  {plan.sends}")

# %% [markdown]
# Per rank and step, from formulas (Shoeybi et al. 2019, section 3; Huang et al. 2019, section 2.3).
#
# | parallelism | good when | its price |
# |---|---|---|
# | data | the model fits into one rank's memory | gradients of *all* weights, once a step; a larger batch |
# | model, by tensors | a layer is too large for one rank | several all-reduces of activations in every step, none of which can wait: fast links |
# | model, by layers | the model is too large, links are slow | only one stage works at a time, unless … |
# | pipeline | … micro-batches keep all stages busy | the *bubble* at both ends, (*p*−1)/(*m*+*p*−1) |
# | hybrid | thousands of ranks: tensors within a node, pipeline across nodes, data over the rest | all of it to be kept in one's head: module 07 |
#
# With a larger batch, activations grow and gradients do not, so that data parallelism wins; with
# wider layers it is the other way round. From here on: data parallelism.

# %% [markdown]
# ## 3. The same batch, cut in four
#
# *Predict: four ranks each take a quarter of a batch of 64, compute a gradient, and step with the
# mean of the four. How far is that from the step that one process makes with the whole batch? And
# with the sum in place of the mean?*

# %%
torch.manual_seed(0)
samples, targets = torch.randn(64, 20), torch.randn(64, 1)
before = torch.randn(20, 1)


def gradient_of(weights, samples, targets):
    """Of the mean squared error, by hand."""
    return 2 * samples.T @ (samples @ weights - targets) / len(samples)


alone = -0.1 * gradient_of(before, samples, targets)

# %%
# %%ranks 4 --out by_mean,by_sum
import torch.distributed as dist

mine = slice(16 * rank, 16 * (rank + 1))
total = gradient_of(before, samples[mine], targets[mine])
dist.all_reduce(total)
by_mean, by_sum = -0.1 * (total / world_size), -0.1 * total

# %%
print("mean: the same step as one process, on every rank:", end=" ")
print(all(torch.allclose(step, alone, atol=1e-6) for step in by_mean))
print(f"sum:  the same direction, {by_sum[0].norm() / alone.norm():.2f} times as far")

# %% [markdown]
# The mean of four quarters' means is the mean of the whole: synchronous data parallel SGD is SGD
# with a larger batch, and nothing else. The sum is the same SGD with a learning rate four times as
# large, a different one for every number of ranks. Neither raises an error. (The shares have to be
# equal. `sync_sgd` is your exercise: what if they are not?)

# %% [markdown]
# ## 4. A larger batch, a larger step?
#
# Sixteen workers with 16 samples each make steps with 256: from the same data, a sixteenth of the
# steps. Two rules say how much larger each may be. *Linear*: 16 times, as far as 16 small steps
# went (Goyal et al. 2017, Accurate, large minibatch SGD, section 2.1). *Square root*: 4 times,
# since the noise of the mean is a quarter (Krizhevsky 2014, One weird trick, section 5, which
# derives it and then reports that the linear rule worked better). *Warm-up* lets the rate rise from
# that of one worker over the first steps (Goyal et al., section 2.2).
#
# Section 3 allows us to do without the sixteen: one process with a batch of 256 makes the same
# steps.
#
# *Predict: which of the five comes nearest to one worker? Which breaks?*

# %%
torch.manual_seed(0)
centres = torch.randn(10, 4, 32)  # ten classes, each in four places
labels, places = torch.randint(0, 10, (4096,)), torch.randint(0, 4, (4096,))
points = centres[labels, places] + 1.2 * torch.randn(4096, 32)


def classifier():
    """Four hidden layers with large weights to begin with: touchy at first, as deep networks are."""
    torch.manual_seed(1)
    layers = []
    for inputs in (32, 64, 64, 64):
        layer = nn.Linear(inputs, 64)
        nn.init.normal_(layer.weight, std=1.5 * (2 / inputs) ** 0.5)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def descent(workers, highest, warm_steps=0):
    """Losses over 32,768 samples, 16 for each worker in a step, by the number of samples seen."""
    model, batch = classifier(), 16 * workers
    optimizer = torch.optim.SGD(model.parameters(), lr=highest)
    order = torch.Generator().manual_seed(2)
    losses = []
    for step in range(32_768 // batch):
        if warm_steps:
            optimizer.param_groups[0]["lr"] = np.interp(step, [0, warm_steps], [RATE, highest])
        chosen = torch.randint(0, len(points), (batch,), generator=order)
        loss = nn.functional.cross_entropy(model(points[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses = np.array(losses).reshape(128, -1).mean(1)  # of 256 samples each
    ends = np.unique(np.geomspace(1, 128, 25).astype(int))  # of longer and longer windows
    return [(256 * b, losses[a:b].mean()) for a, b in zip([0, *ends], ends, strict=False)]


# %% tags=["nbval-ignore-output"]
from hpml.train import draw
from hpml.train.learning_rate import RULES

RATE = 0.035  # of one worker
runs = {"1 worker": descent(1, RATE)}
for rule in ("none", "sqrt", "linear"):
    runs[f"16 workers, {rule}"] = descent(16, RATE * RULES[rule](16))
for rule in ("sqrt", "linear"):
    runs[f"16 workers, {rule}, warm-up"] = descent(16, RATE * RULES[rule](16), warm_steps=38)
best = min(list(runs)[1:], key=lambda name: (np.isnan(runs[name][-1][1]), runs[name][-1][1]))
figure = draw.descents(runs, title=f"Nearest to one worker comes: {best}")
publish_figure(
    "learning-rate rules for 16 workers",
    figure,
    "Training loss over 32,768 samples: one worker, and 16 with the rate unchanged, times 4, times "
    "16, the last two also with warm-up over the first 38 of 128 steps.",
)

# %% [markdown]
# With the rate unchanged, 16 workers learn as much per *step* as one, and there are too few steps.
# The linear rule can be wrong at the start: the first gradients of an untrained network change from
# place to place, and a step 16 times as long leaves the region where they mean anything. Warm-up is
# there to get it past that. The square root is safer. Which comes nearest here is in the title; it
# depends on the network and on how long one trains.
#
# Neither is a law. Past some batch size more samples say nothing new, and no rule helps (McCandlish
# et al. 2018, An empirical model of large-batch training). (`lr_scaling` is your exercise.)

# %% [markdown]
# ## 5. Waiting for the slowest
#
# In a synchronous step all wait for the last. In an *asynchronous* one nobody waits: a server keeps
# the weights, each worker fetches them, computes a gradient, hands it in, and goes on with what the
# weights are by then (Dean et al. 2012, Large scale distributed deep networks, section 4.1).
#
# To see it, computing is a pause here: 10 ms, and 40 ms on one of four workers, the *straggler*.
#
# *Predict: how many gradients does each worker compute in the time of ten synchronous steps? And
# without waiting?*

# %%
from hpml.parallel_sgd.updates import Update, asynchronous, synchronous

torch.manual_seed(3)
inputs = torch.randn(4096, 2, dtype=torch.float64) * torch.tensor([1.0, 0.4])
outputs = inputs @ torch.tensor([1.0, -1.0], dtype=torch.float64) + 0.7 * torch.randn(4096)
start = torch.tensor([-3.0, 3.0], dtype=torch.float64)


def gradient(weights, number):
    """Of the squared error of a plane with two weights, on batch `number` of 8 samples."""
    batch = torch.randint(0, 4096, (8,), generator=torch.Generator().manual_seed(number))
    return inputs[batch].T @ (inputs[batch] @ weights - outputs[batch]) / 8


def straggler(worker, step):
    return 0.040 if worker == 1 else 0.010


def in_step():
    return synchronous(gradient, start, learning_rate=0.45, steps=10, pause=straggler)


def out_of_step():
    return asynchronous(gradient, start, learning_rate=0.45, steps=10, pause=straggler)


# %% tags=["nbval-ignore-output"]
from hpml.trace.launch_timeline import timeline

waiting = launch(in_step, 4)
share = (
    sum(call.finished - call.issued for call in waiting.ranks[0].calls[-10:])
    / (waiting.values[0][-1]["at"])
)
timeline(waiting, title=f"Synchronous, rank 1 slow: the others wait {share:.0%} of the time")

# %% tags=["nbval-ignore-output"]
going_on = launch(out_of_step, 5)
counts = [sum(update["worker"] == w for update in going_on.values[0]) for w in range(4)]
timeline(going_on, title=f"Asynchronous, rank 2 slow: gradients by worker: {counts}")

# %% [markdown]
# White is computing. In the first picture rank 1 is almost always white, and the others wait for it
# in every step: each step is as long as its slowest worker's. In the second the workers are ranks 1
# to 4, and each goes at its own pace; rank 0 is the server, with a lane for every worker whose
# gradient it waits for.
#
# Who talks to whom is easier to see with an arrow for every message.

# %% tags=["nbval-ignore-output"]
from hpml.trace.space_time import space_time

space_time(
    {"weights out, gradients in": going_on},
    title="Nobody waits for rank 2, and everybody goes through rank 0",
)

# %% [markdown]
# ## 6. What not waiting costs
#
# While a worker computes, the others change the weights. Its gradient is then that of a place where
# the weights no longer are. *Staleness* counts the updates in between.
#
# *Predict: four workers that are equally fast: how stale is the usual gradient? With one worker?
# What does the path to the minimum look like?*


# %%
def like_others(worker, step):
    """Between 4 and 6 ms."""
    return 0.004 + 0.002 * np.random.default_rng(9 * step + worker).random()


def one_slow(worker, step):
    return like_others(worker, step) * (8 if worker == 0 else 1)


def path(rule, workers, pause):
    """The log of a run on real ranks: 30 steps, or as many updates without waiting."""

    def drive():
        return rule(gradient, start, learning_rate=0.45, steps=30, pause=pause)

    evidence = launch(drive, workers + (rule is asynchronous))
    return [Update(**update) for update in evidence.values[0]]


# %% tags=["nbval-ignore-output"]
from hpml.parallel_sgd.trajectory import trajectories

setups = {"1 worker": (1, like_others), "2 workers": (2, like_others)}
setups |= {"4 workers": (4, like_others), "4, one slow": (4, one_slow)}
rows = {}
for name, rule in (("synchronous", synchronous), ("asynchronous", asynchronous)):
    logs = {title: path(rule, *setup) for title, setup in setups.items()}
    rows[name] = {f"{title}, {log[-1].at:.1f} s": log for title, log in logs.items()}
stale = np.mean([update.staleness for update in logs["4 workers"]])
moments = (inputs.T @ inputs / 4096).tolist(), (inputs.T @ outputs / 4096).tolist()


def loss(first, second):
    """Half the mean squared error, up to a constant."""
    (a, b), (_, c) = moments[0]
    d, e = moments[1]
    return (a * first**2 + 2 * b * first * second + c * second**2) / 2 - d * first - e * second


figure = trajectories(
    loss, start.tolist(), rows, title=f"Four workers that do not wait are {stale:.1f} updates late"
)
publish_figure(
    "SGD in step and out of step",
    figure,
    "Two weights, the same learning rate everywhere; synchronous steps above, asynchronous updates "
    "below, coloured by staleness; the seconds are those of the run.",
)

# %% [markdown]
# Above, more workers make a smoother path of as many steps: a larger batch. One slow worker changes
# nothing but the time.
#
# Below, every worker adds its own updates, several times as many in the same time or less. One
# worker alone is never stale. Four are about three updates late, which overshoots the minimum and
# comes back. Along a direction of curvature *c*, up-to-date gradients bear a learning rate of up to
# 2/*c*, gradients that are 3 updates late only up to 0.45/*c* (Levin and May 1976, A note on
# difference-delay equations), which is just what it is here.
# The slow worker's gradients are rare and very stale. Bounding staleness is the compromise: whoever
# is too many steps ahead of the slowest waits (Ho et al. 2013, stale synchronous parallel).
# (`async_sgd` is your exercise.)

# %% [markdown]
# ## 7. One server, or none
#
# Whether in step or not, a *parameter server* has all gradients come in and all weights go out over
# its own link. An *all-reduce* on a ring has every rank send to its neighbour only, a piece at a
# time. Both give every rank the same sum of 4 MB from each, over links of 1 Gbit/s.
#
# *Predict: how many MB does rank 0 receive, with two, three, four ranks? And on the ring?*


# %%
def one_all_reduce(algorithm, nbytes):
    """One all-reduce, with marks around it."""
    import torch.distributed as dist

    from hpml.ranks import mark

    tensor = torch.ones(nbytes // 4)
    dist.barrier()
    mark("begin")
    all_reduce(tensor, algorithm, per_node=2)
    mark("end")
    return tensor[0].item()


def observed(algorithm, ranks, link, nbytes):
    return launch(lambda: one_all_reduce(algorithm, nbytes), ranks, link=link)


# %% tags=["nbval-ignore-output"]
from hpml.trace.launch_timeline import traffic_bars

no_link = launch(lambda: None, 2, link="1gbit").no_link
if no_link:
    skip("links of a given rate", no_link)
else:
    launches = {
        name: {f"{p} ranks": observed(algorithm, p, "1gbit", 4_000_000) for p in (2, 3, 4)}
        for name, algorithm in (("rank 0 as server", "naive"), ("ring", "ring"))
    }
    received = launches["rank 0 as server"]["4 ranks"].ranks[0].traffic.received_bytes / 1e6
    figure = traffic_bars(
        launches,
        own=4e6,
        title=f"Of four ranks the server receives {received:.0f} MB; on the ring all have the same",
    )
    publish_figure(
        "bytes over each rank's link",
        figure,
        "Adding up 4 MB of each rank, on 2, 3 and 4 ranks, as the kernel counted at each rank's own "
        "network interface.",
    )
    for name, groups in launches.items():
        took = {p: phases(evidence, ["begin", "end"])["begin"] for p, evidence in groups.items()}
        print(
            f"{name:17}", ", ".join(f"{p}: {1e3 * seconds:.0f} ms" for p, seconds in took.items())
        )

# %% [markdown]
# The server's link carries (*p*−1) times 4 MB each way: it is full, everybody else's is idle, and
# each further worker makes the step longer. On the ring each link carries 2(*p*−1)/*p* times 4 MB,
# which stays below 8 MB however many join, and that is the least there can be where the ranks
# themselves add (Patarasuk and Yuan 2009, section 3; a switch that adds needs about 4 MB). Real
# parameter servers are several, each with a share of the weights (Li et al. 2014, Scaling
# distributed machine learning with the parameter server); with as many servers as workers the bytes
# are the ring's. (`parameter_server`, `naive_all_reduce` and `ring_all_reduce` are your exercises.)

# %% [markdown]
# ## 8. Who sends what to whom: five all-reduces
#
# All of them end with the same sum on all ranks. They differ in who talks to whom, in what order,
# with how much. Here are two nodes of two ranks, 1 Gbit/s within a node and 100 Mbit/s between the
# nodes; 1 MB each.
#
# | | idea | source |
# |---|---|---|
# | naive | all send to rank 0, rank 0 sends to all | |
# | tree | in pairs, pairs of pairs, … to rank 0, and back | Thakur, Rabenseifner and Gropp 2005 |
# | ring | a part each, added up on the way round, then handed round | Patarasuk and Yuan 2009 |
# | halving-doubling | exchange halves with one, quarters with another, …, and back | Thakur et al. 2005, section 4.5 |
# | hierarchical | add up within the node, then across nodes, then hand out within | Cho et al. 2019, BlueConnect |
#
# *Predict: which has the fewest messages? Which the fewest bytes? Which the fewest bytes between
# nodes, where ranks 0 and 1 are one node, 2 and 3 the other?*

# %% tags=["nbval-ignore-output"]
NODES = "nodes=2x2,intra=1gbit,inter=100mbit"
if no_link:
    skip("all-reduce across two nodes", no_link)
else:
    seen = {name: observed(name, 4, NODES, 1_000_000) for name in ALGORITHMS}
    took = {name: phases(one, ["begin", "end"])["begin"] for name, one in seen.items()}
    best = min(took, key=took.get)
    display(space_time(seen, title=f"Two nodes, a slow link between them: {best} is the quickest"))
    print(f"{'':18}{'seconds':>8}{'MB that node 0 sent to node 1':>32}")
    for name, one in seen.items():
        print(f"{name:18}{took[name]:8.3f}{one.uplinks[0].sent_bytes / 1e6:32.2f}")

# %% [markdown]
# All move 6 MB in all; the question is over which link, and how much of it at the same time. The
# naive way brings it all to one rank. The tree works in pairs, and half of the ranks or more are idle. Ring
# and halving-doubling keep every rank busy with the least there is to do, in more and smaller
# messages, but halving-doubling swaps its largest pieces with the farthest rank. The hierarchical one
# adds up within the node first: between nodes goes as little as if each node were a single rank.

# %% [markdown]
# ## 9. Latency on the left, bandwidth on the right
#
# Why keep five of them? A message of *n* bytes takes about α + *n*β: a *latency* for being a message
# at all, and a time per byte, the inverse of the *bandwidth* (Hockney 1994, The communication
# challenge for MPP). Both come from a ping-pong of two ranks. For an all-reduce one adds up its
# messages (Thakur, Rabenseifner and Gropp 2005, section 3; adding up itself, γ per byte, is a
# hundredth of sending here and left out):
#
# | *p* ranks | messages, × α | bytes, × β |
# |---|---|---|
# | naive | 2 (*p*−1) | 2 (*p*−1) *n* |
# | tree | 2 log₂ *p* | 2 log₂ *p* · *n* |
# | ring | 2 (*p*−1) | 2 (*p*−1)/*p* · *n* |
# | halving-doubling | 2 log₂ *p* | 2 (*p*−1)/*p* · *n* |
#
# *Predict: on four ranks, which is the quickest for 1 kB? For 16 MB? From what size on does the
# network's rate count at all?*

# %% tags=["nbval-ignore-output"]
from hpml.allreduce.curves import measured, network as measured_network, predicted

LINKS = {
    "100 Mbit/s": "100mbit",
    "1 Gbit/s": "1gbit",
    "2 nodes of 2: 1 Gbit/s, 100 Mbit/s between": NODES,
}
networks = {}
if no_link:
    skip("α and β of links of a given rate", no_link)
else:
    for name, link in LINKS.items():
        networks[name] = measured_network(link, ranks=4)
        print(f"{name:>42}: {networks[name].within}")
    print(f"{'between the nodes':>42}: {networks[name].across}")

# %% [markdown]
# The bandwidth is that of the link, less headers. The latency is this machine's: processes that wake
# each other up. A cluster's, with a core for every rank, is to be measured there: that is what
# `slurm/01_allreduce.slurm` is for.
#
# Now every algorithm at every size. What would take more than 2.2 seconds is left out: there is a
# line for it.

# %% tags=["nbval-ignore-output"]
from hpml.allreduce.timing import LIBRARY
from hpml.predict.collectives import all_reduce_bytes, seconds
from hpml.predict.draw import message_curves

SIZES = (1_000, 10_000, 100_000, 1_000_000, 4_000_000, 16_000_000)
panels, bounds = {}, {}
if no_link:
    skip("all-reduce over links of a given rate", no_link)
else:
    for name, one in networks.items():
        taken = measured(one, [*ALGORITHMS, LIBRARY], SIZES, longest=2.2)
        panels[name] = {a: Series(taken[a], predicted(one, a)) for a in ALGORITHMS}
        panels[name]["Gloo's own"] = Series(taken[LIBRARY])
        if not one.across:
            bounds[name] = lambda n, rate=one.link.rate: seconds(all_reduce_bytes(4, n), rate)
    ratio = taken["ring"][1_000_000] / taken["hierarchical"][1_000_000]
    figure = message_curves(
        panels,
        bounds=bounds,
        title="Few messages in a row win on the left, few bytes on the right; "
        f"across nodes, hierarchical is {ratio:.1f} times as fast as a ring",
    )
    publish_figure(
        "all-reduce by five algorithms over three networks",
        figure,
        "Four ranks. Points: measured. Lines: the α–β model, with α and β from a ping-pong of two "
        "ranks. Grey: less than 2(p−1)/p · n over the link's rate.",
    )

# %% tags=["nbval-ignore-output"]
if panels:
    for name, panel in panels.items():
        off = [
            abs(series.model(n) / series.measured[n] - 1)
            for series in panel.values()
            for n in series.measured
            if series.model and n >= 100_000
        ]
        print(f"from 100 kB on, the model is off by {np.median(off):.0%} in the median: {name}")

# %% [markdown]
# On the left the lines are flat: a message costs α whether it has 4 bytes or 4 thousand, and what
# counts is how many messages follow each other. On the right they all rise alike, and what counts is
# the bytes of the busiest link. Where the two meet, at α/β bytes a message, is different for every
# network: so a library switches algorithms by size, and so frameworks put small gradients together
# before they send them.
#
# Naive and ring have the same α on the left, 2(*p*−1), and yet naive is the quicker one there: its
# messages are under way at the same time, those of the ring wait for each other. A model is a model.
# Points above the lines on the left are this machine's: four ranks on few cores take turns, the
# ping-pong had a core for each. Points within the grey are the emulation's: a link that has been
# idle lets a few kilobytes pass at once before it keeps to its rate. (`alpha_beta` is your
# exercise.)

# %% [markdown]
# ## 10. MPI says what, a library decides how
#
# MPI, the *message passing interface*, has *point-to-point* calls, one rank to one other (send, recv:
# section 8 is made of them), and *collectives*, which all ranks of a group call together: broadcast,
# reduce, gather, scatter, all-gather, reduce-scatter, all-to-all, barrier, all-reduce.
# `MPI_Allreduce` is defined by its result: every rank has the sum (MPI 4.1, section 6.9.6). How the
# sum comes about is up to the library. Open MPI has the algorithms above under names of its own,
# and lets one choose: `mpirun --mca coll_tuned_use_dynamic_rules 1 --mca
# coll_tuned_allreduce_algorithm 4`.
#
# *Predict: which of them does its own choice follow for 1 kB, which for 4 MB?*

# %% tags=["nbval-ignore-output"]
from hpml.allreduce import mpi

SOME = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
why_not = mpi.missing() or no_link
if why_not:
    skip("Open MPI's algorithms", why_not)
else:
    series = {}
    for name in ("basic_linear", "recursive_doubling", "ring", "rabenseifner", "default"):
        taken = mpi.mpi_all_reduce_seconds(SOME, 4, "1gbit", name, repeats=5)
        series[f"Open MPI, {name}"] = Series(dict(zip(SOME, map(min, taken), strict=True)))
    for name in ("ring", "Gloo's own"):
        points = panels["1 Gbit/s"][name].measured
        series[f"{name}, as above"] = Series({n: points[n] for n in SOME})
    display(
        message_curves(
            {"4 ranks, 1 Gbit/s": series},
            bounds={"4 ranks, 1 Gbit/s": bounds["1 Gbit/s"]},
            title="One call, several algorithms",
        )
    )

# %% [markdown]
# `recursive_doubling` exchanges *all* it has with one rank, then with another: log₂ *p* messages,
# the fewest there can be, and log₂ *p* times all bytes. `rabenseifner` is halving-doubling. The
# default changes over between them by size and number of ranks (Open MPI's *tuned* component).
#
# PyTorch's *back ends* are such libraries, under one interface:
#
# | back end | made for | CPU tensors | GPU tensors |
# |---|---|---|---|
# | Gloo | training on CPUs, over Ethernet | all collectives, send and recv | collectives, no send and recv, no barrier |
# | NCCL | NVIDIA GPUs: NVLink, InfiniBand, GPUDirect | none | all |
# | MPI | clusters with an MPI of their own; PyTorch built from source with it | all but reduce-scatter | where that MPI can |
#
# (From the table in the documentation of torch.distributed, docs.pytorch.org, which also has XCCL
# for Intel's GPUs. Its rule of thumb: NCCL for GPUs, Gloo for CPUs.)

# %% [markdown]
# ## 11. Reading TensorFlow's page
#
# The guide *Distributed training with TensorFlow* (tensorflow.org/guide/distributed_training) can
# now be read word by word. *Before you read the right-hand column: what does each of these lines
# cost, on how many bytes, and what happens with a straggler?*
#
# | the guide says | and that means |
# |---|---|
# | "In sync training, all workers train over different slices of input data in sync, and aggregating gradients at each step." | Sections 3 and 5: one big batch, one all-reduce of all gradients per step, as slow as the slowest. *Aggregating* is a sum or a mean: look which. |
# | "In async training, all workers are independently training over the input data and updating variables asynchronously." | Sections 5 and 6: no waiting, and what it costs is *staleness*. |
# | "Typically sync training is supported via all-reduce and async through parameter server architecture." | Section 7. *Typically*: a server can be synchronous as well. |
# | `MirroredStrategy`: "It creates one replica per GPU device. Each variable in the model is mirrored across all the replicas." | Data parallelism in one machine, section 2: every GPU has all weights. They stay equal "by applying identical updates", section 3, and not by sending weights. |
# | "All-reduce aggregates tensors across all the devices by adding them up, and makes them available on each device." | MPI's definition, section 10: what, and not how. |
# | "There are many all-reduce algorithms and implementations available, depending on the type of communication available between devices." | Sections 8 and 9. `NcclAllReduce`, `HierarchicalCopyAllReduce`, `ReductionToOneDevice` are the choices: the last one is the naive way. |
# | `MultiWorkerMirroredStrategy`: "synchronous distributed training across multiple workers, each with potentially multiple GPUs" | The same over a network, which is now the slow link of section 8. |
# | "`CommunicationImplementation.RING` is RPC-based" | The ring of section 8, over gRPC, for CPUs and GPUs. `NCCL` is a library that picks ring or tree by size, and has no CPU. `AUTO` leaves it to TensorFlow. |
# | `CommunicationOptions(bytes_per_pack=…)`: "Breaks collective operations into packs of certain size." (API reference) | The trade of section 9: large packs for the bandwidth, several of them so that the first is under way while backward is at work. |
# | `ParameterServerStrategy`: "Variables are created on parameter servers and they are read and updated by workers in each step." | Section 7: all weights out and all gradients in, over the servers' links. By default workers do so "independently without synchronizing with each other" (API reference): asynchronous. |
# | "each batch of the given input is divided equally among the multiple replicas" | The batch size you give is that of *all* together. More replicas: smaller shares, less to compute between two all-reduces (strong scaling), unless you raise it (weak scaling). |
# | "You will also need to re-tune your learning rate, depending on the model." | Section 4, in one sentence. |
# | `AutoShardPolicy.FILE`: "Shards by input files (i.e. each worker will get a set of files to process)." `DATA`: "Each worker will process the whole dataset and discard the portion that is not for itself." (API reference) | Who sees which samples. With `DATA` every worker *reads* everything, so reading does not scale: the serial part of section 1. |
#
# (Texts from the guide and from the API reference of tf.distribute and tf.data, Apache 2.0 and CC BY
# 4.0.) PyTorch's and Horovod's pages use the same words. When a page promises a speed-up, ask:
# strong or weak? Synchronous? Whose link carries how many bytes, in how many messages? And which
# learning rate?
#
# Now the exercises: `exercises/01_parallel_sgd.ipynb`.
