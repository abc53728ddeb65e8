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
# Training repeats one line: weights minus learning rate times gradient. The gradient is a sum over
# many samples, and a sum can be shared out. What does that gain, what does it change, and who adds
# the pieces up?
#
# Before most cells there is a question in italics. Write your answer down, run the cell, and read
# the answer below it. Sections marked *(more)* are not needed today: fold them, and read them later.

# %%
# %load_ext hpml
# %matplotlib inline
import numpy as np
import torch

from hpml.publish import conclude, publish_figure, skip

torch.set_num_threads(1)  # as on the ranks

# %% [markdown]
# ## Why, and when?
#
# Three reasons to use more than one device, and what each needs:
#
# - **Many trainings**: a search for hyperparameters. The trainings do not talk to each other, so
#   this scales perfectly. Do it first.
# - **Much data**: one training takes too long. Share out the samples: *data parallelism*.
# - **A large model**: it does not fit into the memory of one device. Share out the weights: *model
#   parallelism*.
#
# When not? A small model should not be distributed: its step is over in milliseconds, and sending
# costs more than sharing gains. First make one device fast (module 03).
#
# ### Or a smaller model? *(more)*
#
# Ask whether a smaller model would do: *pruning* removes weights that contribute little. AlexNet
# kept its accuracy with 9 times fewer weights (Han et al. 2015, Learning both weights and
# connections, abstract). A CPU node has much more memory than a GPU, and is enough for many small
# models.

# %% [markdown]
# ## 1. How much faster can it get?
#
# A *rank* is one of the processes that work together. *Strong scaling*: the same work on more ranks.
# Here it is one training step of a small network on 1024 samples: each of *p* ranks takes 1024/*p*.
# Forward and backward are shared out. The update is not: every rank updates all weights.
#
# *Predict: how many times as fast are two ranks? Sixteen? A thousand?*


# %%
from torch import nn

from hpml.modules.m01_parallel_sgd.lecture.findings import BUSY
from hpml.predict import amdahl, draw
from hpml.ranks import launch
from hpml.trace.repetition import phases


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
        mark("compute")
        model(batch).square().mean().backward()
        mark("send")
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        mark("update")
        optimizer.step()
        mark("end")
        optimizer.zero_grad()


def step_seconds(samples, ranks):
    """Of the parts of the quickest step."""
    evidence = launch(training_steps, ranks, inputs=[samples] * ranks)
    return phases(evidence, ["compute", "send", "update", "end"])


# %% [markdown]
# One and two ranks are measured as they are. This machine may have no cores for more, so 4, 8 and 16
# are simulated: two ranks do what two of the 16 would do. What more ranks add to the sending is left
# out.

# %% tags=["nbval-ignore-output"]
steps = {p: step_seconds(1024 // p, ranks=min(p, 2)) for p in (1, 2, 4, 8, 16)}
strong = {p: sum(step.values()) for p, step in steps.items()}
weak = {p: sum(step_seconds(1024, ranks=p).values()) for p in (1, 2)}
model = amdahl.Amdahl(serial=steps[1]["update"], parallel=steps[1]["compute"])
figure = draw.strong_and_weak(strong, weak, model)
publish_figure(
    "strong and weak scaling",
    figure,
    "One training step on 1 and 2 ranks of one thread each, and the share of one rank of 4, 8, 16; "
    "lines: Amdahl's and Gustafson's models of computing alone, from the step of one rank. Points "
    "are below them because of sending, and because small batches compute less efficiently.",
)

# %% tags=["nbval-ignore-output"]
two, most, share = strong[1] / strong[2], max(strong), model.serial_fraction
conclude(
    two > 1 and share > 0,
    f"**Answer.** Two ranks are {two:.1f} times as fast as one, {most} (simulated) "
    f"{strong[1] / strong[most]:.1f} times. The update is {share:.0%} of the step of one rank and is "
    f"not shared out: a thousand ranks are at most {model.seconds(1) / model.seconds(1000):.1f} times "
    "as fast, even if sending took no time.",
    f"Two ranks are {two:.1f} times as fast as one, {share:.0%} is not shared out. {BUSY}",
)

# %% [markdown]
# Time on *p* ranks is *serial + parallel/p*. However many ranks there are, the serial part stays:
# the speed-up ends at 1 over the serial share (Amdahl 1967). *Efficiency*, speed-up over ranks,
# falls all the way. Sending comes on top: the lines leave it out, the points have it.
#
# *Weak scaling* lets the work grow with the ranks: each keeps its 1024 samples, and the serial part
# stays as it is (Gustafson 1988). That curve goes on rising. But it answers another question: more
# work in the same time, and for SGD that means a larger batch (sections 3 and 4). (`amdahl` is your
# exercise.)

# %% [markdown]
# ## 2. What can be cut?
#
# A training step has a batch and it has layers. Ranks can share either, or both.
#
# *Predict: in which of these does a rank need all the weights? In which does it need to see the
# others' samples?*

# %%
from hpml.modules.m01_parallel_sgd.lecture.findings import listed, near
from hpml.predict import draw, parallelism

example = parallelism.Network(layers=4, width=1024, batch=256)
plans = [
    parallelism.data_parallel(example, ranks=4),
    parallelism.tensor_parallel(example, ranks=4),
    parallelism.layer_parallel(example, ranks=4),
    parallelism.hybrid(example, groups=2, stages=2, micro_batches=8),
]
draw.cuts(plans, title="One step on four ranks: who computes what, and what they send each other")

# %% [markdown]
# **Answer.** Only with *data* does a rank have all the weights, and it sees only its own samples.
# With *tensor* and *layers* it has a quarter of the weights, and all samples pass through it, as
# activations. With *hybrid* it has half of both.
#
# | parallelism | good when | its price |
# |---|---|---|
# | data | the model fits into one rank's memory | gradients of *all* weights, once a step; a larger batch |
# | model, by tensors | a layer is too large for one rank | several all-reduces of activations in every step, and each has to be waited for: fast links |
# | model, by layers: each rank has some layers, a *stage* | the model is too large, links are slow | only one stage works at a time |
# | pipeline | as by layers, with the batch cut into *micro-batches* that keep the stages busy | the *bubble* at both ends: idle for (*p*−1)/(*m*+*p*−1) of the time, with *m* micro-batches (Huang et al. 2019) |
# | hybrid | thousands of ranks: tensors within a node, pipeline across nodes, data over the rest | it is complicated: module 07 |
#
# With a larger batch there are more activations to send, and not more gradients: data parallelism
# wins. With wider layers it is the other way round. From here on: data parallelism.
#
# ### Who sends the most, and who is idle? *(more)*
#
# *Predict: which of these ways sends the most, which the least? Which leaves ranks idle?*

# %%
print(f"{'':26}{'weights':>9}{'sent':>9}{'idle':>7}  what is sent")
plans.insert(3, parallelism.layer_parallel(example, ranks=4, micro_batches=8))
for plan in plans:
    weights, sent = plan.weights / 1e6, plan.sent / 1e6
    print(f"{plan.name:26}{weights:6.1f} MB{sent:6.1f} MB{plan.idle:7.0%}  {plan.sends}")

# %%
sent = {plan.name: plan.sent / 1e6 for plan in plans}
most, least = max(sent, key=sent.get), near(sent, 1.001)
idle = sorted((plan for plan in plans if plan.idle), key=lambda plan: -plan.idle)
conclude(
    True,
    f"**Answer.** *{most}* sends the most, {sent[most]:.1f} MB from each rank. "
    f"{listed([f'*{name}*' for name in least])} send{'s' * (len(least) == 1)} the least, "
    f"{min(sent.values()):.1f} MB. Each rank is idle "
    f"{listed([f'{plan.idle:.0%} of the time with *{plan.name}*' for plan in idle])}.",
    "",
)

# %% [markdown]
# Per rank and step, from formulas (Shoeybi et al. 2019, section 3; Huang et al. 2019, section 2.3).

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
same = all(torch.allclose(step, alone, atol=1e-6) for step in by_mean)
times = (by_sum[0].norm() / alone.norm()).item()
conclude(
    same and abs(times - 4) <= 1e-3 * max(times, 4),
    "**Answer.** With the mean, every rank makes the step of one process, up to rounding. With the "
    f"sum it makes a step in the same direction, {times:.2f} times as far.",
    f"mean equal to one process: {same}; the sum goes {times:.2f} times as far.",
)

# %% [markdown]
# The mean of four quarters' means is the mean of the whole: synchronous data parallel SGD is SGD
# with a larger batch, and nothing else. The sum is the same SGD with a learning rate four times as
# large, and with another one for every number of ranks. Neither raises an error. (The shares have
# to be equal. `sync_sgd` is your exercise: what if they are not? And no layer may look at the batch
# as a whole, as batch normalisation does: module 06.)
#
# A larger batch needs a larger learning rate, or else training takes as many steps as before.
# Usual is the *linear rule*: *k* times the batch, *k* times the rate, reached by a *warm-up* over
# the first steps (Goyal et al. 2017, section 2). Section 4 tries it.

# %% [markdown]
# ## 4. A larger batch, a larger step? *(more)*
#
# Sixteen workers with 16 samples each make steps with 256: from the same data, a sixteenth of the
# steps. Two rules say how much larger each may be. *Linear*: 16 times, as far as 16 small steps
# went (Goyal et al. 2017, section 2.1). *Square root*: 4 times, since the noise of the mean is a
# quarter (Hoffer et al. 2017, Train longer, generalize better). Krizhevsky (2014, One weird trick)
# states it too, on page 5, without a proof, and reports that the linear rule worked better for
# him. *Warm-up* lets the rate rise from that of one worker over the first steps (Goyal et al.,
# section 2.2).
#
# Section 3 lets us do without the sixteen: one process with a batch of 256 makes the same steps.
#
# *Predict: which of the five comes nearest to one worker? Which diverges?*

# %%
from torch import nn

torch.manual_seed(0)
centres = torch.randn(10, 4, 32)  # ten classes, each in four places
labels, places = torch.randint(0, 10, (4096,)), torch.randint(0, 4, (4096,))
points = centres[labels, places] + 1.2 * torch.randn(4096, 32)


def classifier():
    """Four hidden layers with large weights: sensitive at the start, as deep networks are."""
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
from hpml.modules.m01_parallel_sgd.lecture import findings
from hpml.train import draw, learning_rate

RATE = 0.035  # of one worker
runs = {"1 worker": descent(1, RATE)}
for rule in ("none", "sqrt", "linear"):
    runs[f"16 workers, {rule}"] = descent(16, RATE * learning_rate.RULES[rule](16))
for rule in ("sqrt", "linear"):
    runs[f"16 workers, {rule}, warm-up"] = descent(
        16, RATE * learning_rate.RULES[rule](16), warm_steps=38
    )
figure = draw.descents(
    runs, title="With a sixteenth of the steps, no learning-rate rule reaches one worker"
)
publish_figure(
    "learning-rate rules for 16 workers",
    figure,
    "Training loss over 32,768 samples: one worker, and 16 with the rate unchanged, times 4, times "
    "16, the last two also with warm-up over the first 38 of 128 steps.",
)

# %% tags=["nbval-ignore-output"]
found = findings.rules(runs, diverged=30.0)
breaks = " and ".join(f"*{name}*" for name in found.diverged) or "none"
if found.ends:
    (best, least), (worst, most) = found.nearest, found.farthest
    conclude(
        found.held,
        f"**Answer.** Nearest to one worker comes *{best}*, with a loss of {least:.2f}. One worker has "
        f"{found.alone:.2f} by then: no rule reaches it with a sixteenth of the steps. Farthest of "
        f"those that train is *{worst}* with {most:.2f}. What diverges: {breaks}.",
        f"one worker ends at {found.alone:.2f}, *{best}* at {least:.2f}; diverged: {breaks}.",
    )
else:
    conclude(False, "**Answer.** Some of the rules train.", "every rule diverged.")

# %% [markdown]
# With the rate unchanged there are too few steps. The linear rule can be wrong at the start: the
# first gradients of an untrained network change from place to place, and a step 16 times as long
# goes to where they no longer hold. Warm-up is there to get past that. Which rule comes nearest
# depends on the network and on how long one trains: one run of one small network proves no rule.
#
# Past some batch size more samples say little new, and no rule helps (McCandlish et al. 2018, An
# empirical model of large-batch training). (`lr_scaling` is your exercise.)

# %% [markdown]
# ## 5. Waiting for the slowest
#
# In a *synchronous* step all ranks wait for the last one, the *straggler*: each step takes as long
# as the slowest worker. In an *asynchronous* one nobody waits: a *parameter server* keeps the
# weights; each worker fetches them, computes a gradient, hands it in, and goes on with what the
# weights are by then (Dean et al. 2012, section 4.1).
#
# So why is synchronous training the usual way? Without waiting, gradients are *stale*: while a worker
# computes one, the others change the weights. Training bears a few stale gradients, and too many make
# it unstable (section 6). A synchronous run is SGD with a large batch: it can be repeated, compared
# with one process, and debugged. On machines that are alike it waits little, and with a few spare
# workers it was faster *and* more accurate than asynchronous training (Chen et al. 2016).
#
# ### With waiting and without, measured *(more)*
#
# To see it, computing is a pause here: 10 ms, and 40 ms on one of four workers, the straggler.
#
# *Predict: ten synchronous steps need forty gradients. How many does each worker compute? And if
# nobody waits, until there are forty? Which is over sooner?*

# %%
from hpml.modules.m01_parallel_sgd.lecture import findings, updates
from hpml.ranks import launch
from hpml.trace import launch_timeline, space_time

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
    return updates.synchronous(gradient, start, learning_rate=0.45, steps=10, pause=straggler)


def out_of_step():
    return updates.asynchronous(gradient, start, learning_rate=0.45, steps=10, pause=straggler)


# %% tags=["nbval-ignore-output"]
waiting = launch(in_step, 4)
share = findings.waited(waiting, rank=0)
launch_timeline.timeline(
    waiting, title=f"Synchronous, rank 1 slow: rank 0 waits {share:.0%} of the time"
)

# %% [markdown]
# White is computing, a bar is a rank in a call. Rank 1 computes almost all the time, and the others
# wait for it in every step: each step takes as long as the slowest worker.

# %% tags=["nbval-ignore-output"]
going_on = launch(out_of_step, 5)
space_time.space_time(
    {"weights out, gradients in": going_on},
    title="Asynchronous: nobody waits for rank 2, and everything goes through rank 0",
    until=0.050,
)

# %% tags=["nbval-ignore-output"]
found = findings.without_waiting(waiting, going_on, slow=1)
conclude(
    found.held,
    f"**Answer.** In {found.steps} synchronous steps each worker computes {found.steps} gradients, in "
    f"{1e3 * found.long:.0f} ms. Without waiting, the {sum(found.counts)} gradients take "
    f"{1e3 * found.short:.0f} ms, and the workers computed {', '.join(map(str, found.counts))} of "
    "them.",
    f"{1e3 * found.long:.0f} ms with waiting, {1e3 * found.short:.0f} ms without. {findings.BUSY}",
)

# %% [markdown]
# An arrow is a message, here of the first 50 ms. Rank 0 is the server, ranks 1 to 4 are the workers:
# the second worker, the straggler, is now rank 2. A fast worker hands in a gradient and gets new
# weights after each of its pauses of 10 ms, rank 2 after 40 ms.
#
# In short, the history: around 2012 clusters were uneven, and asynchronous parameter servers were
# the way (Dean et al. 2012, Large scale distributed deep networks; Li et al. 2014). Then GPUs and
# networks that are all alike, and ring all-reduce, known from supercomputers, made synchronous
# training fast: Baidu's ring in 2017 (Gibiansky, Bringing HPC techniques to deep learning), Horovod
# (Sergeev and Del Balso 2018), PyTorch's DDP (Li et al. 2020). These are modules 05 and 06.

# %% [markdown]
# ## 6. What not waiting costs *(more)*
#
# *Staleness* counts the updates between reading the weights and handing in the gradient.
#
# *Predict: four workers that are equally fast: how stale is the usual gradient? With one worker?
# What does the path to the minimum look like?*


# %%
from hpml.modules.m01_parallel_sgd.lecture import findings, trajectory, updates
from hpml.ranks import launch


def like_others(worker, step):
    """Between 4 and 6 ms."""
    return 0.004 + 0.002 * np.random.default_rng(9 * step + worker).random()


def one_slow(worker, step):
    return like_others(worker, step) * (8 if worker == 0 else 1)


def path(rule, workers, pause):
    """The log of a run on real ranks: 30 steps, or as many updates without waiting."""

    def drive():
        return rule(gradient, start, learning_rate=0.45, steps=30, pause=pause)

    evidence = launch(drive, workers + (rule is updates.asynchronous))
    return [updates.Update(**update) for update in evidence.values[0]]


# %% tags=["nbval-ignore-output"]
setups = {"1 worker": (1, like_others), "2 workers": (2, like_others)}
setups |= {"4 workers": (4, like_others), "4, one slow": (4, one_slow)}
in_turn, at_will = (
    {title: path(rule, *setup) for title, setup in setups.items()}
    for rule in (updates.synchronous, updates.asynchronous)
)
rows = {
    row: {f"{title}, {log[-1].at:.1f} s": log for title, log in logs.items()}
    for row, logs in {"synchronous": in_turn, "asynchronous": at_will}.items()
}
stale = np.mean([update.staleness for update in at_will["4 workers"]])
plane = trajectory.plane_loss(inputs.numpy(), outputs.numpy())
figure = trajectory.trajectories(
    plane,
    start.tolist(),
    rows,
    title=f"Four workers that do not wait are {stale:.1f} updates late",
)
publish_figure(
    "SGD in step and out of step",
    figure,
    "Two weights, the same learning rate everywhere; synchronous steps above, asynchronous updates "
    "below, coloured by staleness; the seconds are those of the run.",
)

# %% tags=["nbval-ignore-output"]
found = findings.staleness(at_will["1 worker"], at_will["4 workers"], lowest=1.0)
seen = (
    f"One worker is {found.late[0]:.1f} updates late, four are {found.late[1]:.1f}. In the second half "
    f"of the run their first weight is {found.away[0]:.2f} and {found.away[1]:.2f} away from the best "
    "one, on average"
)
conclude(
    found.held,
    f"**Answer.** {seen}: the four make {len(at_will['4 workers'])} updates in place of "
    f"{len(at_will['1 worker'])}, and their path swings from side to side.",
    f"{seen}. Which worker comes late, and how late, depends on the machine's load.",
)

# %% [markdown]
# The plus is the minimum, the cross is the end of the path; the seconds over a panel are those of its
# run. In the upper row more workers make a smoother path of as many steps: a larger batch. One slow
# worker changes nothing but the time. In the lower row every worker adds its own updates, so there
# are several times as many.
#
# *Predict: take a lower run and the one above it, and stop both when the quicker one ends. Which of
# the two is nearer to the least loss, with two workers, with four, with four of which one is slow?*

# %% tags=["nbval-ignore-output"]
lowest = np.linalg.lstsq(inputs.numpy(), outputs.numpy(), rcond=None)[0]
found = findings.in_the_same_time(in_turn, at_will, lambda *w: float(plane(*w) - plane(*lowest)))
ahead, level, behind = (
    findings.listed([f"*{name}*" for name in names])
    for names in (found.ahead, found.level, found.behind)
)
numbers = "; ".join(
    f"*{name}* {pair.waiting:.3f} with waiting, {pair.going_on:.3f} without ({pair.until:.1f} s; "
    f"median staleness {pair.late:.0f})"
    for name, pair in found.pairs.items()
)
conclude(
    found.held,
    f"**Answer.** Not waiting is ahead with {ahead or 'none'}: more updates in the same time. It is "
    f"behind with {behind or 'none'}{f' and level with {level}' if level else ''}. (Loss above the "
    f"least after the same time: {numbers}.)",
    f"loss above the least after the same time: {numbers}. How late gradients come depends on the "
    "machine's load.",
)

# %% [markdown]
# Why do four equal ones swing? Along a direction of curvature *c*, up-to-date gradients allow a learning
# rate of up to 2/*c*, gradients that are 3 updates late only up to 0.45/*c* (Levin and May 1976, A
# note on difference-delay equations). Here the rate is 0.45 and *c* is 1: just beyond stable. Half
# the rate, or bounded staleness, helps: a worker that is too many steps ahead of the slowest waits
# (Ho et al. 2013, stale synchronous parallel). (`async_sgd` is your exercise. Its bound counts the
# steps of each worker, and not updates; each gradient is applied at the full rate.)

# %% [markdown]
# ## 7. One server, or none
#
# Synchronous or not, a *parameter server* has all gradients come in and all weights go out over its
# own link. An *all-reduce* gives every rank the sum without a server. On a *ring* every rank sends
# to its neighbour only, one part of the tensor at a time: once round to add the parts up, once more
# to hand the sums out. In the picture the tensor has *n* bytes.

# %% tags=["nbval-ignore-output"]
from hpml.allreduce import all_reduce
from hpml.modules.m01_parallel_sgd.lecture import findings, watched
from hpml.ranks import launch
from hpml.trace import launch_timeline, stepper

stepper.step_through(watched.watched("ring"))

# %% [markdown]
# Now with 4 MB on each rank, over links of 1 Gbit/s: through rank 0 as a server, and on the ring.
#
# *Predict: how many MB does rank 0 receive, with two, three, four ranks? And on the ring?*


# %%
def one_all_reduce(algorithm, nbytes):
    """`nbytes` of each rank, added up."""
    tensor = torch.ones(nbytes // 4)
    all_reduce(tensor, algorithm, per_node=2)
    return tensor[0].item()


def observed(algorithm, ranks, link, nbytes):
    return launch(lambda: one_all_reduce(algorithm, nbytes), ranks, link=link)


# %% tags=["nbval-ignore-output"]
no_link = launch(lambda: None, 2, link="1gbit").no_link
if no_link:
    skip("links of a given rate", no_link)
else:
    launches = {
        name: {f"{p} ranks": observed(algorithm, p, "1gbit", 4_000_000) for p in (2, 3, 4)}
        for name, algorithm in (("rank 0 as server", "naive"), ("ring", "ring"))
    }
    server, ring = (groups["4 ranks"] for groups in launches.values())
    at_server, on_ring = (
        max(one.traffic.received_bytes for one in run.ranks) for run in (server, ring)
    )
    figure = launch_timeline.traffic_bars(
        launches,
        own=4e6,
        title=f"Of four ranks the server receives {at_server / 1e6:.0f} MB, on the ring each {on_ring / 1e6:.0f} MB",
    )
    publish_figure(
        "bytes over each rank's link",
        figure,
        "Adding up 4 MB of each rank, on 2, 3 and 4 ranks, as the kernel counted at each rank's own "
        "network interface.",
    )

# %% tags=["nbval-ignore-output"]
if not no_link:
    conclude(
        findings.as_due(at_server, 12e6) and findings.as_due(on_ring, 6e6),
        f"**Answer.** Rank 0 receives {at_server / 1e6:.1f} MB on 4 ranks, and sends as much again: its link "
        f"is in use for {1e3 * 8 * at_server / 1e9:.0f} ms each way. On the ring no rank receives more than "
        f"{on_ring / 1e6:.1f} MB, {1e3 * 8 * on_ring / 1e9:.0f} ms. With 2 and 3 ranks it is 4 and 8 MB, and "
        "on the ring 4.0 and 5.3 MB.",
        f"rank 0 received {at_server / 1e6:.1f} MB, a rank of the ring {on_ring / 1e6:.1f} MB.",
    )

# %% [markdown]
# The server's link carries (*p*−1) times 4 MB each way: it is full, the others are idle most of the
# time, and each further worker makes the step longer. On the ring each link carries 2(*p*−1)/*p*
# times 4 MB, which stays below 8 MB however many join. (`ring_all_reduce` is your exercise.)
#
# ### Fewer bytes still, and more servers *(more)*
#
# Where the ranks themselves add, less than on the ring is not possible (Patarasuk and Yuan 2009,
# section 3); a switch that adds needs about 4 MB. Real parameter servers are several, each with a
# share of the weights (Li et al. 2014, Scaling distributed machine learning with the parameter
# server); with as many servers as workers, on the workers' own nodes, the bytes are the ring's.
# (`naive_all_reduce` and `parameter_server` are exercises on this section too.)

# %% [markdown]
# ## 8. Who sends what to whom: five all-reduces *(more)*
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
from hpml.allreduce import ALGORITHMS
from hpml.modules.m01_parallel_sgd.lecture import findings
from hpml.trace import space_time

NODES = "nodes=2x2,intra=1gbit,inter=100mbit"
if no_link:
    skip("all-reduce across two nodes", no_link)
else:
    seen = {name: observed(name, 4, NODES, 1_000_000) for name in ALGORITHMS}
    rows = findings.crossing(seen)
    least = min(across for _, _, across in rows.values())
    display(
        space_time.space_time(seen, title=f"Between the nodes, {least:.1f} MB each way are enough")
    )
    print(f"{'':18}{'messages':>9}{'MB in all':>11}{'MB from node 0 to node 1':>26}")
    for name, (count, total, across) in rows.items():
        print(f"{name:18}{count:9}{total:11.2f}{across:26.2f}")

# %% tags=["nbval-ignore-output"]
if not no_link:
    found = findings.least_crossing(rows)
    between = {name: across for name, (_, _, across) in rows.items()}
    conclude(
        found.held,
        f"**Answer.** {findings.listed(found.fewest).capitalize()} need the fewest messages, "
        f"{rows[found.fewest[0]][0]}. In bytes they are all equal: {rows['naive'][1]:.0f} MB. Between "
        f"the nodes {findings.listed(found.least)} send the least, {min(between.values()):.1f} MB each way, the ring "
        f"{between['ring']:.1f} MB, halving-doubling {between['halving-doubling']:.1f} MB.",
        "MB between the nodes: "
        f"{', '.join(f'{name} {across:.2f}' for name, across in between.items())}.",
    )

# %% [markdown]
# (The last column is the kernel's count, with the packets' headers; the others count the tensors.)
#
# So the question is over which link the bytes go, and how many at the same time. The naive way
# brings all to one rank. The tree works in pairs, and half of the ranks or more are idle. Ring and
# halving-doubling keep every rank busy with the least there is to do, in more and smaller messages,
# but halving-doubling swaps its largest pieces with the farthest rank. The hierarchical one adds up
# within the node first: between nodes goes as little as if each node were a single rank.

# %% [markdown]
# ## 9. Latency for small messages, bandwidth for large ones *(more)*
#
# Why keep five of them? A message of *n* bytes takes about α + *n*β: a *latency* for being a message
# at all, and a time per byte, the inverse of the *bandwidth* (Hockney 1994, The communication
# challenge for MPP). Both come from a ping-pong of two ranks. For an all-reduce one adds up the
# messages that follow one another (Thakur, Rabenseifner and Gropp 2005, section 3). Adding up itself
# costs γ per byte.
#
# The naive way as an example: *p*−1 messages of *n* bytes come to rank 0 over its one link, and as
# many go out. That makes 2 (*p*−1) α + 2 (*p*−1) *n*β. The others are yours to count: `alpha_beta`.
#
# *Predict: on four ranks, which is the quickest for 1 kB? For 16 MB? From what size on does the
# bandwidth count at all? First by the model, then measured.*

# %% tags=["nbval-ignore-output"]
from functools import partial

from hpml.allreduce import ALGORITHMS, curves, schedule, timing
from hpml.machine.resources import usable_cores
from hpml.modules.m01_parallel_sgd.lecture import allreduce_findings, findings, over_bound
from hpml.predict.draw import Series

FLAT, NESTED = "1 Gbit/s", "2 nodes of 2: 1 Gbit/s, 100 Mbit/s between"
networks = {}
if no_link:
    skip("α and β of links of a given rate", no_link)
else:
    for name, link in ((FLAT, "1gbit"), (NESTED, NODES)):
        networks[name] = curves.network(link, ranks=4)
        print(f"{name:>42}: {networks[name].within}")
    print(f"{'between the nodes':>42}: {networks[NESTED].across}")
    gamma = timing.seconds_per_byte_added()

# %% tags=["nbval-ignore-output"]
if not no_link:
    alpha, beta = networks[FLAT].within.alpha, networks[FLAT].within.beta
    seen = f"To add up costs γ = {1e9 * gamma:.2f} ns per byte, to send {1e9 * beta:.1f} ns"
    conclude(
        gamma < 0.1 * beta,
        f"{seen}, {beta / gamma:.0f} times as much: γ is left out below.",
        f"{seen}.",
    )
    small, large = (
        {name: 1e3 * curves.predicted(networks[FLAT], name)(n) for name in ALGORITHMS}
        for n in (1_000, 16_000_000)
    )
    few, many = (findings.listed(findings.near(times)) for times in (small, large))
    conclude(
        True,
        f"By the model the quickest are for 1 kB {few} ({min(small.values()):.1f} ms, and "
        f"{max(small, key=small.get)} {max(small.values()):.1f} ms); for 16 MB {many} "
        f"({min(large.values()):.0f} ms, and {max(large, key=large.get)} {max(large.values()):.0f} ms). "
        f"A message of {alpha / beta / 1e3:.0f} kB costs as much for α as for its bytes: well below that "
        "the rate of the network does not count.",
        "",
    )
    ring_ms, nested_ms = (
        1e3 * curves.predicted(networks[NESTED], name)(1_000_000)
        for name in ("ring", "hierarchical")
    )
    seen = f"hierarchical takes {nested_ms:.0f} ms for 1 MB, a ring {ring_ms:.0f} ms"
    conclude(nested_ms < ring_ms, f"Across nodes, by the model, {seen}.", f"{seen}, by the model.")

# %% [markdown]
# The bandwidth is that of the link, less headers. The latency is this machine's: processes that wake
# each other up. A cluster, with a core for every rank, has another one: `slurm/01_allreduce.slurm`
# measures it there. ± is the standard error of the fit, from how far the times of five sizes are off
# one line. Where it is large, other work on the machine was in the ping-pong, and the model's times
# for small messages are as uncertain as its α.
#
# Now every algorithm at every size: points are measured, lines are the model. The plot shows time
# over the least time that the network allows, so that 1 × is perfect. What would take more than 2.2
# seconds is left out.

# %% tags=["nbval-ignore-output"]
SIZES = (1_000, 10_000, 100_000, 1_000_000, 4_000_000, 16_000_000)
panels, bounds = {}, {}
if no_link:
    skip("all-reduce over links of a given rate", no_link)
else:
    for name, one in networks.items():
        taken = curves.measured(one, [*ALGORITHMS, timing.LIBRARY], SIZES, longest=2.2)
        panels[name] = {a: Series(taken[a], curves.predicted(one, a)) for a in ALGORITHMS}
        bounds[name] = partial(curves.least, one)
        if name == FLAT:
            gloo = taken[timing.LIBRARY]
    figure = over_bound.over_bound(
        panels,
        bounds,
        title="Small messages take many times the bound, because of latency; for large ones bytes count",
    )
    publish_figure(
        "all-reduce by five algorithms over two networks",
        figure,
        "Four ranks, time over the lower bound by bytes alone. Points: measured. Lines: the α–β "
        "model, with α and β from a ping-pong of two ranks.",
    )

# %% tags=["nbval-ignore-output"]
if not no_link:
    ms = allreduce_findings.ms
    small, large = (allreduce_findings.order(panels[FLAT], n) for n in (1_000, 16_000_000))
    few, many = (
        f"{one.first} ({ms(one.taken[one.first])}), and last {one.last} ({ms(one.taken[one.last])}; model "
        f"{ms(one.model[one.last])}). The model has {findings.listed(one.expected)} first"
        for one in (small, large)
    )
    seen = f"measured first is for 1 kB {few}. Measured first is for 16 MB {many}"
    conclude(large.held, f"**Answer**: {seen}.", f"{seen}. {findings.BUSY}")
    misses = {name: allreduce_findings.misses(panel, SIZES) for name, panel in panels.items()}
    seen = " times the model's; ".join(
        f"{name}: from 1 MB on the model is off by at most {one.large:.0%} (median over the "
        f"algorithms), and for 1 kB measured times are {one.small[one.low]:.2g} ({one.low}) to "
        f"{one.small[one.high]:.2g} ({one.high})"
        for name, one in misses.items()
    )
    sent = [f"{schedule(name, 4, 2).messages} with {name}" for name in ALGORITHMS]
    reasons = ""
    if any(one.above for one in misses.values()):
        reasons += (
            " Points above their line: the model counts the messages that follow one another, with a "
            f"core for each rank. Here {usable_cores():g} cores do the work of all messages: "
            f"{findings.listed(sent)}."
        )
    if any(one.below for one in misses.values()):
        reasons += (
            " Points below their line: α came out too high. Its ping-pong was made at another time, "
            "and whatever else the machine did then is in it (see its ±)."
        )
    conclude(
        all(one.held for one in misses.values()),
        f"{seen} times the model's.{reasons}",
        f"{seen} times the model's. {findings.BUSY}",
    )

# %% [markdown]
# Small messages: all are far above the bound, and what counts is messages. With a core for each rank
# it is those that follow each other; with fewer cores it is all of them, since each needs a
# processor at both ends. Large ones: what counts is the bytes of the busiest link. Where the two
# meet is different for every network. That is why a library switches algorithms by size, and why
# frameworks put small gradients together before they send them.
#
# A model leaves things out: messages of the naive way travel at the same time, those of a ring wait
# for each other, and α + *n*β does not know that. Nor does it know that ranks share cores.

# %% [markdown]
# ## 10. MPI says what, a library decides how *(more)*
#
# MPI, the *message passing interface*, has *point-to-point* calls, one rank to one other (send, recv:
# section 8 is made of them), and *collectives*, which all ranks of a group call together: broadcast,
# reduce, gather, scatter, all-gather, reduce-scatter, all-to-all, barrier, all-reduce.

# %%
from hpml.allreduce import mpi
from hpml.machine.resources import usable_cores
from hpml.modules.m01_parallel_sgd.lecture import (
    allreduce_findings,
    collectives_picture,
    findings,
    mpi_messages,
    over_bound,
)
from hpml.predict.draw import Series

collectives_picture.collectives()

# %% [markdown]
# `MPI_Allreduce` is defined by its result: every rank has the sum (MPI 4.1, section 6.9.6). How the
# sum comes about is up to the library. Open MPI has most of the algorithms above, under names of its
# own, and lets one choose: `mpirun --mca coll_tuned_use_dynamic_rules 1 --mca
# coll_tuned_allreduce_algorithm 4` (`ompi_info --param coll tuned --level 9` lists them; none is
# hierarchical). `rabenseifner` is halving-doubling. With `recursive_doubling` a rank exchanges *all*
# it has with one rank, then with another: few messages, but more bytes.
#
# *Predict: which of them does its own choice follow for 1 kB, which for 4 MB?* Open MPI can count the
# messages that it sends.

# %% tags=["nbval-ignore-output"]
why_not = mpi.missing() or no_link
if why_not:
    skip("Open MPI's algorithms", why_not)
else:
    own = {n: mpi_messages.messages_sent(n, 4, "1gbit") for n in (1_000, 4_000_000)}
    named = ("recursive_doubling", "ring", "rabenseifner")
    known = {name: mpi_messages.messages_sent(1_000, 4, "1gbit", name) for name in named}

# %% tags=["nbval-ignore-output"]
if not why_not:
    small, large = (allreduce_findings.choice(sent, n, known) for n, sent in own.items())
    parts = [
        f"for {size} those of {findings.listed([f'`{name}`' for name in one.followed]) or 'none'} (rank 0 "
        f"sends {one.messages} messages, {one.times:g} times its bytes)"
        for size, one in (("1 kB", small), ("4 MB", large))
    ]
    conclude(
        bool(small.followed and large.followed),
        f"**Answer.** The messages of Open MPI's own choice are {findings.listed(parts)}.",
        f"The messages of Open MPI's own choice are {findings.listed(parts)}.",
    )

# %% [markdown]
# A table in its source has the choice for each number of ranks (since 4.1,
# coll_tuned_decision_fixed.c; for four ranks it changes at 8 KiB). It was measured on other
# clusters: on your own, measure, and choose. Here are the times, with Gloo's beside them.

# %% tags=["nbval-ignore-output"]
SOME = {1_000: 100, 10_000: 100, 100_000: 30, 1_000_000: 5, 4_000_000: 5}  # repeats
if why_not:
    skip("the times of Open MPI's algorithms", why_not)
else:
    series = {}
    for name in ("basic_linear", "recursive_doubling", "ring", "rabenseifner", "default"):
        taken = mpi.mpi_all_reduce_seconds([*SOME], 4, "1gbit", name, [*SOME.values()])
        series[f"Open MPI, {name}"] = Series(dict(zip(SOME, map(min, taken), strict=True)))
    series["Gloo's own"] = Series({n: gloo[n] for n in SOME})
    place = f"4 ranks on {usable_cores():g} cores, 1 Gbit/s"
    title = "One call, several algorithms, two libraries: time over the bound"
    display(over_bound.over_bound({place: series}, {place: bounds[FLAT]}, title=title))

# %% tags=["nbval-ignore-output"]
if not why_not:
    for name in allreduce_findings.choice(own[1_000], 1_000, known).followed:
        taken = [series[f"Open MPI, {each}"].measured[1_000] for each in ("default", name)]
        conclude(
            True,
            f"For 1 kB *default* and *{name}* send the same messages, and their points are a factor of "
            f"{max(taken) / min(taken):.2g} apart: at that size a smaller difference means nothing.",
            "",
        )
    if below := allreduce_findings.below_bound(series, bounds[FLAT]):
        conclude(
            True,
            f"Below 1 ×: {findings.listed(below)}. That is the emulation: a link that has been idle "
            "lets some kilobytes pass at once before it keeps to its rate.",
            "",
        )
    else:
        conclude(True, "No point is clearly below 1 ×.", "")

# %% tags=["nbval-ignore-output"]
if not why_not:
    costs = {n: allreduce_findings.choice_costs(series, n) for n in (1_000_000, 4_000_000)}
    seen = "; ".join(
        f"for {n / 1e6:.0f} MB {one.times:.1f} times as long as its own `{one.quickest}`"
        for n, one in costs.items()
    )
    conclude(
        min(one.times for one in costs.values()) > 1.1,
        f"What the table costs here: the choice takes {seen}. A default was measured on somebody else's "
        "cluster. For the sizes of your gradients, measure on yours.",
        f"The choice takes {seen}: here the table costs little.",
    )

# %% [markdown]
# Gloo's own all-reduce, `dist.all_reduce`, was timed together with the five of section 9. It is a
# ring (gloo/allreduce.cc, where no algorithm is asked for). Compare it with Open MPI's ring for
# 1 kB: the messages are as small, and the time for one is the library's. Gloo's receivers sleep until
# a message wakes them up (gloo/transport/tcp/loop.cc: `epoll_wait`); Open MPI's ask again and again
# whether one is there, here with `mpi_yield_when_idle`, which lets others have the core in between.
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
#
# ### Why not MPI alone?
#
# MPI was made for CPUs and numerical simulations. Its data lay in the memory of the host, and its
# ranks were started by `mpirun`. Deep learning wanted three things more:
#
# - **Data that stays on the GPU.** Without help each message goes from GPU to host, to the network,
#   to the other host, to its GPU. A *CUDA-aware* MPI takes pointers to GPU memory. With *GPUDirect
#   RDMA* the network card then reads that memory itself, with no copy in the host's.
# - **Collectives as GPU work.** NCCL's reductions are kernels in a CUDA stream: they run beside
#   backward, and know NVLink, PCIe and the network cards of the machine.
# - **No launcher, and no MPI to install.** Gloo and NCCL come with PyTorch; ranks find each other
#   through an address and a port.
#
# MPI and NCCL work well together: MPI starts the ranks and carries NCCL's first message, the id of
# the group, and NCCL carries the gradients (NCCL user guide, "NCCL and MPI"). That is how Horovod
# uses them. The same page warns, under "Inter-GPU Communication with CUDA-aware MPI": both at the
# same time between the same GPUs may deadlock.
#
# ### Scale-up and scale-out
#
# *Scale-up* is more GPUs in one node, over NVLink or PCIe. *Scale-out* is more nodes, over the
# network, which is slower. Hierarchical all-reduces (section 8) are made for both together.
#
# ### Reductions that do not block
#
# `MPI_Iallreduce` (since MPI 3.0) and `all_reduce(..., async_op=True)` return at once, and a `wait`
# ends them. The sum can be made while backward computes the next gradient, if the library makes
# progress by itself: MPI does not promise that, and some libraries do their part only while the
# program is in one of their calls. Libraries for deep learning were built on that overlap. Intel's MLSL (Sridharan et al. 2018, On scale-out deep learning training for
# cloud and HPC), today oneCCL, also sends first what the next step needs first. Module 06 builds
# the overlap by hand.

# %% [markdown]
# ## 11. Reading TensorFlow's page *(more)*
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
# | "`CommunicationImplementation.RING` is RPC-based" | The ring of section 8, over gRPC, for CPUs and GPUs. `NCCL` is a library that picks ring or tree by size, for GPUs only. `AUTO` leaves it to TensorFlow. |
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

# %% [markdown]
# ## What to take home
#
# - Share out data first, and synchronously: it is SGD with a larger batch, as long as the gradients'
#   *mean* is taken and the learning rate is adapted.
# - What is not shared out bounds the speed-up, and sending comes on top: distribute large work, not
#   small.
# - An all-reduce around a ring sends less than twice each rank's bytes, however many ranks there are;
#   a server's link carries all of them.
#
# ### Where to read on *(more)*
#
# - Ben-Nun and Hoefler 2019, Demystifying parallel and distributed deep learning, ACM Computing
#   Surveys 52(4), pages 65:1 to 65:43: all ways of cutting, in one survey.
# - Goyal et al. 2017, Accurate, large minibatch SGD (arXiv:1706.02677), sections 2 and 3: learning
#   rate, warm-up, and the mistakes one makes.
# - Chen et al. 2016, Revisiting distributed synchronous SGD (arXiv:1604.00981): why to wait.
# - Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms, section 3; Thakur, Rabenseifner
#   and Gropp 2005, sections 3 and 4: the ring and its relatives.
#
# Now the exercises: `exercises/01_parallel_sgd.ipynb`. `sync_sgd` and `ring_all_reduce` first.

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/01_parallel_sgd.ipynb) of this module: first `sync_sgd`, `ring_all_reduce`; for the evening `amdahl`, `lr_scaling`, `naive_all_reduce`, `parameter_server`, `async_sgd`, `alpha_beta`.
