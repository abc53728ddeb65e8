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
from hpml.measure.publish import publish, publish_figure, skip
from hpml.ranks import launch
from hpml.ranks.repetition import phases, quickest

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
# 16 are simulated: two ranks do what two of the 16 would do, each on its 64 samples.

# %% tags=["nbval-ignore-output"]
from hpml.predict.draw import Series, speed_ups
from hpml.predict.scaling import fit_amdahl

strong = {p: step_seconds(1024 // p, ranks=min(p, 2)) for p in (1, 2, 4, 8, 16)}
weak = {p: step_seconds(1024, ranks=p) for p in (1, 2)}
model = fit_amdahl(list(strong), list(strong.values()))
share = model.serial_fraction
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
    title=f"{share:.0%} of the work is not shared out: never more than {1 / share:.0f} times as fast",
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
# since the noise of the mean is a quarter (Krizhevsky 2014, One weird trick, section 5). *Warm-up*
# lets the rate rise from that of one worker over the first steps (Goyal et al., section 2.2).
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
    means = np.array(losses).reshape(32, -1).mean(1)  # of 1024 samples each
    return [(1024 * (k + 1), mean) for k, mean in enumerate(means)]


# %% tags=["nbval-ignore-output"]
from hpml.training import draw
from hpml.training.learning_rate import RULES

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
# The linear rule is right in the long run and wrong at the start: the first gradients of an
# untrained network change from place to place, and a step 16 times as long leaves the region where
# they mean anything. Warm-up gets it past that. The square root is safer, and slower.
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
from hpml.training.parallel_sgd import Update, asynchronous, synchronous

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
    return synchronous(gradient, start, learning_rate=0.35, steps=10, pause=straggler)


def out_of_step():
    return asynchronous(gradient, start, learning_rate=0.35, steps=10, pause=straggler)


# %% tags=["nbval-ignore-output"]
from hpml.ranks.draw import timeline

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
# White is computing. In the first picture the white of ranks 0, 2 and 3 is as rare as that of the
# slow one: every step is as long as its slowest worker's. In the second the workers are ranks 1 to
# 4, and each goes at its own pace; rank 0 is the server, with a lane for every worker whose gradient
# it waits for.
#
# Who talks to whom is easier to see with an arrow for every message.

# %% tags=["nbval-ignore-output"]
from hpml.ranks.space_time import space_time

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
    return (
        0.004
        + 0.002 * torch.rand(1, generator=torch.Generator().manual_seed(9 * step + worker)).item()
    )


def one_slow(worker, step):
    return like_others(worker, step) * (8 if worker == 0 else 1)


def path(rule, workers, pause):
    """The log of a run on real ranks: 30 steps, or as many updates without waiting."""

    def drive():
        return rule(gradient, start, learning_rate=0.35, steps=30, pause=pause)

    evidence = launch(drive, workers + (rule is asynchronous))
    return [Update(**update) for update in evidence.values[0]]


# %% tags=["nbval-ignore-output"]
from hpml.training.trajectory import trajectories

setups = {
    "1 worker": (1, like_others),
    "2 workers": (2, like_others),
    "4 workers": (4, like_others),
}
setups["4, one slow"] = (4, one_slow)
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
# comes back: a delay of 3 allows only 0.45 of the 2/curvature that an up-to-date gradient allows
# for a step (Levin and May 1976, A note on difference-delay equations, has the bound).
# The slow worker's gradients are rare and very stale. Bounding staleness is the compromise: whoever
# is too far ahead waits (Ho et al. 2013, stale synchronous parallel). (`async_sgd` is your
# exercise.)

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
from hpml.ranks.draw import traffic_bars

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
# which stays below 8 MB however many join, and that is the least there can be (Patarasuk and Yuan
# 2009, section 3). Real parameter servers are several, each with a share of the weights (Li et al.
# 2014, Scaling distributed machine learning with the parameter server); with as many servers as
# workers the bytes are the ring's. (`parameter_server`, `naive_all_reduce` and `ring_all_reduce` are
# your exercises.)

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
# The naive way is two steps, and four times through rank 0's node. The tree halves that. Ring and
# halving-doubling move the least bytes per rank, in more messages. The hierarchical one crosses
# between nodes with as little as if each node were a single rank.

# %% [markdown]
# ## 11. Reading TensorFlow's page
