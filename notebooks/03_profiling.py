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
# # 03 Profiling with TensorBoard
#
# A training step takes some milliseconds. Where do they go, and on which rank? Guess first, then
# measure; and mend the largest part first, whatever the code looks like.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline

# %% [markdown]
# ## 1. Where do the milliseconds go?

# %% [markdown]
# ## 2. Which profiler when, and what does it cost?

# %% [markdown]
# ## 3. A schedule, and names for the phases

# %% [markdown]
# ## 4. TensorBoard, with no internet

# %% [markdown]
# ## 5. One slow script put right

# %% [markdown]
# ## 6. What is in a trace *(more)*

# %% [markdown]
# ## 7. Four ranks side by side
#
# Four ranks train with DDP, and one of them is slow. Which rank, since which step and in which
# phase is drawn at random. (Four ranks share a few cores here. So a layer waits where it would
# compute, and needs no core.) Each rank has a profiler of its own, and writes a file with its rank
# in the name.

# %%
from hpml.frameworks.profiled_ranks import Training, fresh_folder, profile_ranks, somebody
from hpml.publish import conclude, publish_figure, skip
from hpml.trace.profiler.communication import communication
from hpml.trace.profiler.ranks import read_ranks
from hpml.trace.profiler.ranks_picture import communication_bars, side_by_side
from hpml.trace.profiler.straggler import straggler

slow = somebody(4)
folder = fresh_folder("four_ranks")

# %% tags=["nbval-ignore-output"]
# %%ranks 4
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile, record_function, schedule, tensorboard_trace_handler

from hpml.models.waiting import Waiting

layers = [m for _ in range(4) for m in (nn.Linear(256, 256), Waiting(0.005, 0.01))]
model = DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with profile(
    schedule=schedule(wait=1, warmup=1, active=6, repeat=1),
    on_trace_ready=tensorboard_trace_handler(folder, worker_name=f"rank{rank}"),
    record_shapes=True,
) as profiler:
    for step in range(8):
        with record_function("loading"):
            time.sleep(0.02 + slow.more(rank, step, "loading"))
            images = torch.rand(8, 256)
        with record_function("forward"):
            time.sleep(slow.more(rank, step, "forward"))
            loss = model(images).square().mean()
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        profiler.step()

# %% [markdown]
# The next cell draws how long each rank's all-reduces are in flight.
#
# *Predict: will the slow rank's bar be the longest? Or the shortest?*

# %% tags=["nbval-ignore-output"]
four = read_ranks(folder)
found = communication(four)
display(communication_bars(found, len(four[0].steps), title="Most of the communication is waiting"))
spent = [1e3 * one.exposed / len(four[0].steps) for one in found]
shortest = min(range(4), key=spent.__getitem__)
conclude(
    shortest == slow.rank,
    f"The shortest: rank {shortest} has {spent[shortest]:.0f} ms in a step, the others up to "
    f"{max(spent):.0f} ms. On their own traces alone, each of the others would blame the network.",
    f"rank {shortest} has the shortest bar, and rank {slow.rank} is slow: the processes had to wait "
    "for a core.",
)

# %% [markdown]
# An all-reduce ends when the last rank has come. Those who come early wait (hatched), and that is
# recorded as *their* communication. Now all ranks on one clock.
#
# *Guess before you run the second cell: which rank, since which step, in which phase?*

# %% tags=["nbval-ignore-output"]
publish_figure(
    "four ranks side by side",
    side_by_side(four, title="From some step on, three ranks wait for the fourth"),
    "Phases of six training steps on four ranks; hatched is waiting for the last rank.",
)

# %% tags=["nbval-ignore-output"]
verdict = straggler(four)
print(verdict)
conclude(
    (verdict.rank, verdict.since, verdict.phase) == (slow.rank, slow.since, slow.phase),
    f"That is what was planted: rank {slow.rank}, since step {slow.since}, "
    f"{slow.seconds * 1e3:.0f} ms more in {slow.phase}. Most time in communication has rank "
    f"{verdict.blamed}.",
    f"planted was rank {slow.rank} since step {slow.since} in {slow.phase}: other processes need "
    "these cores.",
)

# %% [markdown]
# `straggler` looks when each rank *calls* each all-reduce: the last one makes the others wait, and
# its longer phase is the reason. (*Wait at N × N* in Scalasca; Geimer et al. 2010.)
#
# TensorBoard has it too: `./hpml tensorboard .hpml/logs/four_ranks`, view *Distributed*. The rank
# with the least *Synchronizing Time* is the one to look at. Beware of the *Overview* of a single
# rank: of one that waits for long it recommends gradient compression, as if the network were slow.
# (`find_the_straggler` is the exercise on this.)

# %% [markdown]
# ### Three faults, three shapes *(more)*
#
# A rank is late for one of many reasons. Here are three, on two ranks that compute in earnest: rank
# 1 sleeps 30 ms in `forward`; or its images are nine times as large and have to be made smaller; or
# three other processes use its core.
#
# *Predict: in which phases is rank 1 slower, in each of the three?*

# %% tags=["nbval-ignore-output"]
from hpml.errors import UserError
from hpml.frameworks.profiled_ranks import Slow
from hpml.trace.profiler.straggler_picture import shapes_of_faults, slower_phases

earnest = {"layers": 6, "width": 512, "batch": 256, "forward": 0.0, "backward": 0.0}
faults = {
    "sleeps in forward": Training(**earnest, slow=Slow(1, 2, "forward", 0.03)),
    "larger images": Training(**earnest, sides=(64, 192)),
    "overfull core": Training(**earnest, sides=(64, 64), crowded=1),
}
shapes = {}
for name, training in faults.items():
    try:
        two = profile_ranks(training, 2, fresh_folder(name.replace(" ", "_")))
        shapes[name] = slower_phases(straggler(two), 1)
    except UserError as error:
        skip(name, str(error))
display(shapes_of_faults(shapes, title="A fault of the program slows one phase, a full core all"))

# %% tags=["nbval-ignore-output"]
slowed = {name: [p for p, times in shape.items() if times > 1.5] for name, shape in shapes.items()}
expected = {"sleeps in forward": ["forward"], "larger images": ["loading"]}
listed = "; ".join(f"*{name}*: {', '.join(slower)}" for name, slower in slowed.items())
conclude(
    all(slowed[name] == phases for name, phases in expected.items())
    and len(slowed.get("overfull core", "two")) >= 2,
    f"Phases that take more than 1.5 times as long: {listed}.",
    f"phases that take more than 1.5 times as long: {listed}. Other processes need these cores.",
)

# %% [markdown]
# A slow loader, or data that are larger, lengthen one phase. A core that is shared with others, a
# processor that is too hot, or a rank bound to the wrong cores lengthen everything that computes:
# then look at the node (module 02), not at the program.

# %% [markdown]
# ### One clock for several nodes *(more)*
#
# The four traces above come from one machine, which has one clock. On several nodes each has its
# own, and NTP keeps them together to about a millisecond: an all-reduce can take less. So here are
# the same traces with clocks that are off, by up to an hour.
#
# But a rank cannot have the sum before the last rank has begun: each all-reduce is a bound on the
# difference of two clocks, and all of them together leave an interval. (Lamport 1978 orders events
# in this way; NTP takes its interval from the fastest of several messages, Mills 1991.)
#
# *Predict: from these traces alone, how well can the clocks be put right: to a second, to 10 ms, to
# 1 µs?*

# %% tags=["nbval-ignore-output"]
from hpml.trace.profiler.clocks import align, moved_by

off = [0.0, 1.7, -42.0, 3600.0]
aligned, clocks = align([moved_by(trace, by) for trace, by in zip(four, off, strict=True)])
print(clocks)
wrong = [abs(offset + by) for offset, by in zip(clocks.offset, off, strict=True)]
conclude(
    all(a <= b + 1e-6 for a, b in zip(wrong, clocks.error, strict=True)),
    f"To milliseconds. The offsets are right within {1e3 * max(wrong):.1f} ms, and the bounds "
    f"promise {1e3 * max(clocks.error):.1f} ms: the narrowest wait of each two ranks decides.",
    f"the offsets are off by up to {1e3 * max(wrong):.1f} ms, more than the bounds allow.",
)

# %% [markdown]
# ### The critical path *(more)*
#
# What would have to be faster, so that the step ends earlier? Walk back from the end of the step.
# Where a rank waits for an all-reduce, go on with the rank that called it last. What is passed on
# the way is the critical path (Böhme et al. 2012).
#
# *Predict: how much of the path belongs to the slow rank?*

# %% tags=["nbval-ignore-output"]
from hpml.trace.profiler.critical_path import critical_path

step = four[0].steps[-1].number
path = critical_path(four, step)
display(side_by_side(four, [step], path=path, title="The path runs through the slow rank"))
own = sum(piece.seconds for piece in path if piece.rank == slow.rank)
computing = {p.what: 1e3 * p.seconds for p in path if p.rank == slow.rank and p.seconds > 1e-3}
whole = sum(piece.seconds for piece in path)
conclude(
    own > 0.5 * whole,
    f"{own / whole:.0%} of {1e3 * whole:.0f} ms, of that {computing.get(slow.phase, 0):.0f} ms in "
    f"{slow.phase}. A millisecond less in a phase of another rank would gain nothing.",
    f"rank {slow.rank} has {own / whole:.0%} of the path: other processes need these cores.",
)

# %% [markdown]
# ## 8. Communication behind backward *(more)*
#
# DDP sends a bucket of gradients as soon as all of them are there, while `backward` goes on (module
# 06; Li et al. 2020, section 3.2). How much of the communication is then *hidden*?
#
# Two ranks, eight layers with 8 MB of gradients in all, over links of 1 Gbit/s. A layer waits 15 ms
# in backward, as if it computed. The limit of a bucket is 25 MB, as by default, or 1 MB.
#
# *Predict: 8 MB take 64 ms or more on this link. How many of them does a rank wait for, with each
# of the two limits?*

# %% tags=["nbval-ignore-output"]
from hpml.trace.profiler.ranks_picture import buckets, hidden_bars

runs = {
    f"{limit} MB": profile_ranks(
        Training(layers=8, width=512, forward=0.002, backward=0.015, bucket_mb=limit),
        2,
        fresh_folder(f"buckets_of_{limit}_MB"),
        link="1gbit",
    )
    for limit in (25, 1)
}
buckets(runs, title="Small buckets leave while backward is at work")

# %% tags=["nbval-ignore-output"]
hidden = {name: communication(ranks) for name, ranks in runs.items()}
count = len(runs["1 MB"][0].steps)
display(hidden_bars(hidden, count, title="With small buckets most of the communication is hidden"))
exposed = {n: 1e3 * sum(one.exposed for one in r) / 2 / count for n, r in hidden.items()}
share = {
    n: sum(o.hidden for o in r) / sum(o.hidden + o.exposed for o in r) for n, r in hidden.items()
}
conclude(
    exposed["1 MB"] < 0.6 * exposed["25 MB"],
    f"With 25 MB for {exposed['25 MB']:.0f} ms of each step: {share['25 MB']:.0%} of the time in "
    f"flight is hidden. With 1 MB for {exposed['1 MB']:.0f} ms: {share['1 MB']:.0%} is hidden.",
    f"with 25 MB {exposed['25 MB']:.0f} ms of each step, with 1 MB {exposed['1 MB']:.0f} ms: other "
    "processes need these cores, or no link can be emulated here.",
)

# %% [markdown]
# The bytes are the same. All eight layers fit into one bucket of 25 MB, so it is full only when
# `backward` ends, and nothing can hide it. Of buckets of 1 MB only the last has to be waited for:
# its gradients are the last ones.
#
# Smaller is not better without end: each all-reduce has its latency, and many small ones do not
# fill the link (module 06, section 6). And a rank that comes late cannot be hidden by any bucket:
# what is hatched is waiting. (`overlap` is the exercise on this: it counts waiting apart.)

# %% [markdown]
# ## 9. Scalars, images, histograms and profiles in one folder *(more)*

# %% [markdown]
# ## 10. TensorFlow's profiler *(more)*

# %% [markdown]
# ## 11. The same trace elsewhere *(more)*

# %% [markdown]
# ## 12. On the cluster *(more)*

# %% [markdown]
# ## What to take home
