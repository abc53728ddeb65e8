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
# A model, a cluster and a bill are given: how many GPUs are worth paying for? This module puts the
# whole day to that one question. Measure small, write down a model with two constants, predict the
# large, and hold it against what others have published.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline
from hpml.errors import UserError
from hpml.publish import conclude, publish_figure, skip
from hpml.ranks import launch

# %% [markdown]
# ## 1. The all-reduce, from 4 bytes to 256 MB
#
# To predict a training step on 256 GPUs, you need the cost of its all-reduce. A micro-benchmark
# measures it: one all-reduce after the other, of sizes over nearly eight decades.
# OSU's benchmarks (`osu_allreduce`) and NVIDIA's (`nccl-tests`) print a line for each size:
#
# - **time**, which OSU calls latency;
# - **algorithm bandwidth**, bytes over time;
# - **bus bandwidth**, 2(*p*−1)/*p* times that: the bytes that each rank must send, over time. Compare
#   it with the rate of the link, whatever the number of ranks
#   ([nccl-tests, PERFORMANCE.md](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)).
#
# Here is the course's own ring between two ranks of this machine, with no link between them. For two
# ranks both bandwidths are the same.
#
# *Predict: how many times as long as 4 bytes do 4096 bytes take?*

# %% tags=["nbval-ignore-output"]
from hpml.allreduce import curves, micro_benchmark as micro, mpi
from hpml.modules.m08_case_studies.lecture import (
    bus_bandwidth_picture,
    curve_ends,
    mpi4py_bench,
    ring_crossover,
)
from hpml.network.available import refusal
from hpml.predict.collectives import Cost
from hpml.record.kept import recorded
from hpml.trace.space_time import format_bytes

own_times = micro.on_this_machine(["ring"], micro.sizes(), ranks=2)["ring"]
print(micro.table(own_times, ranks=2))

# %% tags=["nbval-ignore-output"]
found = curve_ends.latency_then_bandwidth(own_times)
seen = (
    f"{found.small // found.first:,} times the bytes, {format_bytes(found.small)} for "
    f"{format_bytes(found.first)}, take {found.more:.1f} times as long; "
    f"{found.large // found.before} times the bytes, {format_bytes(found.large)} for "
    f"{format_bytes(found.before)}, take {found.much:.1f} times as long."
)
conclude(
    found.held,
    f"{seen} Small messages cost α each; large ones cost β for each byte.",
    f"{seen} On a machine with other work both ends are blurred.",
)

# %% [markdown]
# Two constants, then: α for each message, β for each byte (module 01). Which algorithm is best
# depends on them. Two of them, for *p* ranks:
#
# - **Recursive doubling** exchanges the whole tensor with one rank, then with another, log₂ *p* times:
#   log₂ *p* · (α + *n*β).
# - **The ring**, which Baidu brought to deep learning (Gibiansky 2017): 2(*p*−1) messages of *n*/*p*
#   bytes, so 2(*p*−1) α + 2(*p*−1)/*p* · *n*β. That is the
#   least number of bytes (Patarasuk and Yuan 2009).
#
# Now on a network: four ranks, a link of 1 Gbit/s each. By hand are the course's algorithms. Gloo is
# PyTorch's library for CPUs.
#
# *Predict: which of the two wins for 64 bytes, which for 16 MB? Where do they cross?*

# %% tags=["nbval-ignore-output"]
link_sizes = micro.sizes(1 << 24)
no_network = refusal()
if no_network:
    skip("all-reduce over links of a given rate", no_network)
else:
    gigabit = curves.network("1gbit", ranks=4)
    by_hand = curves.measured(gigabit, ["recursive-doubling", "ring", "library"], link_sizes, 1.0)
    print(f"two ranks, one message: {gigabit.within}")

# %% tags=["nbval-ignore-output"]
if not no_network:
    found = curve_ends.who_wins(gigabit, by_hand["recursive-doubling"], by_hand["ring"])
    small = format_bytes(found.small)
    seen = (
        f"{small}: the ring takes {found.quick:.1f} times as long as recursive doubling. "
        f"{format_bytes(found.large)}: recursive doubling takes {found.slow:.2f} times as long as "
        "the ring."
    )
    conclude(
        found.held,
        f"{seen} Of the sizes measured, the ring is quicker from {format_bytes(found.sooner)} on. By the "
        f"model they are equal at {format_bytes(found.equal)} with the α of two ranks alone, "
        f"{1e6 * gigabit.within.alpha:.0f} µs, and at {format_bytes(found.equal_at_work)} with that "
        f"of a ring's message for {small}, {1e6 * found.alpha_at_work:.0f} µs.",
        f"{seen} Four ranks that share few cores wake each other late: repeat on an idle machine.",
    )

# %% [markdown]
# With more ranks, the ring's messages grow as *p*, those of recursive doubling as log₂ *p*. A
# gradient that is large for 4 ranks may be small for 256. So libraries change the algorithm with size
# and ranks, and frameworks send many layers' gradients as one tensor.
#
# ### The same algorithms in C, and on GPUs *(more)*
#
# Open MPI has both as well, in C, and lets one choose. It also has Rabenseifner's algorithm
# (halving-doubling in module 01), with the messages of two recursive doublings and the bytes of a
# ring.
#
# *Predict: the course's ring is written in Python, Open MPI's in C. How many times as fast is Open
# MPI's for 64 bytes, and for 16 MB?*

# %% tags=["nbval-ignore-output"]
names = {"recursive-doubling": "doubling, by hand", "ring": "ring, by hand", "library": "Gloo"}
if no_network or mpi.missing():
    skip("all-reduce by Open MPI", no_network or mpi.missing())
else:
    series = {names[name]: times for name, times in by_hand.items()}
    for name in ("recursive_doubling", "ring", "rabenseifner"):
        by_mpi = mpi.mpi_all_reduce_seconds(
            link_sizes, 4, "1gbit", name, micro.repeated(link_sizes)
        )
        series[f"Open MPI, {name}"] = dict(zip(link_sizes, map(min, by_mpi), strict=True))
    publish_figure(
        "all-reduce micro-benchmark",
        bus_bandwidth_picture.bus_bandwidths(
            series, 4, 1e9, title="Small: α decides, and with it the software. Large: the link"
        ),
        "Four ranks over links of 1 Gbit/s. Left: time by size. Right: bus bandwidth by size.",
    )

# %% tags=["nbval-ignore-output"]
if not (no_network or mpi.missing()):
    found = curve_ends.software_and_link(by_hand["ring"], series["Open MPI, ring"], 4)
    seen = (
        f"{format_bytes(found.small)}: the ring in Python takes {found.at_small:.1f} times as long "
        f"as in C. {format_bytes(found.large)}: {found.at_large:.2f} times as long."
    )
    conclude(
        found.held,
        f"{seen} α is mostly software, β is the link.",
        f"{seen} More ranks than free cores wait for each other, in whatever language.",
    )

# %% [markdown]
# A point above the link's rate is due to the emulation: a link that was idle lets some kilobytes pass
# at once.
#
# For a power of two of ranks, the model of α and β has Rabenseifner's algorithm never slower than the
# ring. Look at the figure: at 16 MB it is. The model has each link busy from the first byte to the
# last, and leaves out what a rank does between two exchanges. On a large network there is one thing
# more: a ring sends only to its neighbour, Rabenseifner's its largest messages to the farthest rank,
# through switches that all share. So measure.
#
# NCCL is the same benchmark with GPUs in place of cores. It needs two of them.

# %% tags=["nbval-ignore-output"]
import torch

if torch.cuda.device_count() > 1:
    print(micro.table(micro.nccl(micro.sizes()), ranks=torch.cuda.device_count()))
else:
    try:
        of_gpus = recorded("all_reduce")
        by_nccl = {int(size): taken for size, taken in of_gpus.result["seconds"].items()}
        print(of_gpus.origin)
        print(micro.table(by_nccl, ranks=of_gpus.result["ranks"]))
    except UserError as why:
        skip("all-reduce by NCCL", str(why))

# %% [markdown]
# ### The crossover on 256 ranks *(more)*
#
# Where the two algorithms are equal follows from their formulas.
#
# *Predict: 64 times as many ranks, 256. By which factor does the crossover grow?*

# %% tags=["nbval-ignore-output"]
fitted_cost = None if no_network else Cost(gigabit.within.alpha, gigabit.within.beta)
print(ring_crossover.table([4, 8, 16, 64, 256, 1024], fitted_cost))

# %%
few, many = (ring_crossover.crossover(ranks, Cost(1, 1)) for ranks in (4, 256))
conclude(
    many > few,
    f"With 256 ranks in place of 4, the ring wins from {many / few:.1f} times as many bytes on: "
    f"{many:.1f} α/β, not {few:.1f}.",
    f"the ring wins from {many:.1f} α/β on with 256 ranks, from {few:.1f} with 4.",
)

# %% [markdown]
# ### Other people's benchmarks *(more)*
#
# α and β of a cluster that is never idle, from a table with disturbed sizes in it: that is the
# exercise `fit_alpha_beta`. In a shell, `./hpml bench allreduce --columns` prints these tables.
#
# `osu_allreduce` is part of the [OSU micro-benchmarks](http://mvapich.cse.ohio-state.edu/benchmarks/),
# which have a Python version on mpi4py, OMB-Py (Alnaasan et al. 2021). mpi4py's own,
# `mpiexec -n 2 python -m mpi4py.bench pingpong`, sends messages between two ranks: it gives the α and
# the β of MPI. It has no all-reduce. With `nccl-tests`, `all_reduce_perf -b 4 -e 256M -f 4 -g 2`
# measures these sizes on two GPUs.
#
# The first size in these tables, 4 bytes, is one float32. It cannot be cut into parts, so a ring has
# fewer messages there than its formula says: compare from 64 bytes on.
#
# Here is mpi4py's own between two hosts on a link of 1 Gbit/s, as it prints it.
#
# *Predict: compare them with the messages of `torch.distributed`. Which of the two constants is about
# the same, and which differs?*

# %% tags=["nbval-ignore-output"]
if no_network or mpi.missing():
    skip("mpi4py's own benchmark", no_network or mpi.missing())
else:
    printed = mpi4py_bench.ping_pong_table("1gbit")
    print(printed)

# %% tags=["nbval-ignore-output"]
if not (no_network or mpi.missing()):
    found, own = mpi4py_bench.beside(gigabit.within, printed), gigabit.within
    seen = (
        f"message of MPI has α = {1e6 * found.alpha:.0f} µs and β = {1e9 * found.beta:.2f} ns per "
        f"byte, one of torch.distributed {1e6 * own.alpha:.0f} µs and {1e9 * own.beta:.2f} ns"
    )
    conclude(
        found.held,
        f"**Answer.** A {seen}. β is the link's, so it is nearly the same; α is the software's, "
        f"and differs {found.times:.1f} times.",
        f"a {seen}. mpi4py prints means: a message that waited for a processor counts in full.",
    )

# %% [markdown]
# ## 2. Strong scaling fails on a small batch
#
# Modules 01 and 06 had strong scaling (a given batch is shared out) and weak scaling (each rank has
# a batch of its own). The batch decides which of them works on your cluster.
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
from functools import partial

from hpml.modules.m08_case_studies.lecture import BUSY, batch_scaling
from hpml.predict import collectives, draw, interconnects, model_layers, published_scaling
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

# %% tags=["nbval-ignore-output"]
found, small, large = batch_scaling.two_batches(strong), min(strong), max(strong)
seen = (
    f"{found.most} ranks have {found.with_small:.1f} times the images/s of one with a batch of "
    f"{small}, and {found.with_large:.1f} times with a batch of {large}"
)
conclude(
    found.held,
    f"**Answer.** {seen}. With the small batch one rank alone is the fastest: others take little "
    "work from it, and all of them wait for the gradients.",
    f"{seen}; with {small} images the fastest number of ranks is {found.fastest}. {BUSY}",
)

# %% [markdown]
# Why these figures? With more ranks computing shrinks, and sending does not: 2(*p*−1)/*p* times the
# gradients (module 06), which is soon twice. So take the time that they are on their way, 2*n*β for
# *n* bytes, and ask how many images a rank computes meanwhile. Call that number *b*. Without
# latencies, the speed-up of a batch of *B* images is
#
# $$\frac{p}{1 + (p - 1)\, b / B}$$
#
# This is Amdahl's law, and the serial share is *b*/*B*. With many ranks it comes near *B*/*b*. A ring's
# 2(*p*−1) latencies come on top. They grow with *p*, so that in the end more ranks are slower.
#
# *Predict: β is 160 ns per byte, *n* is 0.5 MB, an image takes 4 ms. How large is *b*? What are the
# limits of the two batches? And with section 1's α, what do 256 ranks reach?*

# %% tags=["nbval-ignore-output"]
alpha = 0.0 if no_network else gigabit.within.alpha  # of section 1
data_parallel = batch_scaling.Training(0.004, 500_000, collectives.Cost(alpha, beta=8 / 50e6))
many = [2**k for k in range(9)]
by_model = {b: partial(data_parallel.strong, b) for b in strong}
figure = draw.speed_ups(
    {
        f"batch of {b}": draw.Series({p: by_model[b](p) for p in many} | measured, by_model[b])
        for b, measured in strong.items()
    },
    title=f"256 ranks with a ring: {data_parallel.strong(256, 256):.1f} times as fast with 256 images, "
    f"{data_parallel.strong(32, 256):.1f} times with 32",
    simulated=many[4:],
    hollow_are="predicted",
)
publish_figure(
    "strong scaling with two batches",
    figure,
    "Up to eight ranks that wait in place of computing, and send 0.5 MB of gradients over links of "
    "50 Mbit/s: measured. More ranks: predicted from the rate of the link and α, for a ring.",
)

# %% tags=["nbval-ignore-output"]
found = batch_scaling.off_the_model(data_parallel, strong)
number = f"A rank computes {data_parallel.break_even:.0f} images while its gradients travel"
limits = ", ".join(f"{data_parallel.limit(b):.1f} times for a batch of {b}" for b in strong)
best = max(many, key=by_model[256])
conclude(
    found.held,
    f"**Answer.** {number}. Without latencies the speed-up comes near {limits}. With α = "
    f"{1e6 * alpha:.0f} µs the large batch is fastest on {best} ranks, {by_model[256](best):.1f} times; "
    f"256 ranks wait for 510 messages, and reach {by_model[256](256):.1f} times. (Module 06, section 6, "
    "has the same law. A tree has fewer messages: section 1.) "
    f"With {found.most} ranks what was measured is within {found.off:.0%} of the model.",
    f"{number}; with {found.most} ranks the measured speed-ups are up to {found.off:.0%} from the "
    f"model. {BUSY}",
)

# %% [markdown]
# A batch that is smaller than *b* should not be distributed at all: one rank is the fastest. A
# faster processor makes *b* larger, a faster network smaller. Overlap (section 3) hides a part of
# the sending, at most as much as backward takes.
#
# Weak scaling keeps the images of each rank, say 64. Without latencies the share of its images/s that
# a rank keeps hardly depends on the number of ranks: about 1/(1 + *b*/64). That is why published
# curves (section 3) are nearly all weak scaling. The price is the batch. How far a batch can grow
# before the accuracy falls is not a question of networks: section 4.
#
# ### Weak scaling, measured *(more)*
#
# *Predict: with 64 images on each rank, which share of its images/s does each of eight ranks keep?
# Each of 256?*

# %% tags=["nbval-ignore-output"]
weak = {p: sum(step_seconds(64, p).values()) for p in (1, 8)}

# %% tags=["nbval-ignore-output"]
found = batch_scaling.kept(data_parallel, 64, weak)
seen = (
    f"With 64 images on each of {found.ranks} ranks, a rank has {found.share:.0%} of its images/s "
    "alone"
)
conclude(
    found.held,
    f"**Answer.** {seen}; the model has {found.predicted:.0%}, and "
    f"{data_parallel.weak(64, 256) / 256:.0%} with 256 ranks. But the batch of those is "
    f"{256 * 64:,} images.",
    f"{seen}, and the model has {found.predicted:.0%}. {BUSY}",
)

# %% [markdown]
# A ring's latencies take the rest of the share. So libraries go over to trees where ranks are many
# and messages small (section 1).
#
# ### Ranks that compute *(more)*
#
# Was it only the waiting? Two ranks compute in earnest, a core for each: a small residual network
# with 1.2 MB of gradients, over 100 Mbit/s.
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
    b: {p: step_seconds(b // p, p, computing_steps, "100mbit") for p in (1, 2)} for b in (8, 256)
}

# %% tags=["nbval-ignore-output"]
found, small, large = batch_scaling.computing(computed), min(computed), max(computed)
seen = (
    f"two ranks have {found.times[small]:.1f} times the images/s of one with a batch of {small}, "
    f"{found.times[large]:.1f} times with {large}"
)
conclude(
    found.held,
    f"**Answer.** Here {seen}. Of their step {found.sending[small]:.0%} and "
    f"{found.sending[large]:.0%} are sending.",
    f"{seen}. {BUSY}",
)

# %% [markdown]
# Only the number *b* differs. On a GPU there is one effect more: a small share leaves the GPU partly
# idle, so that an image takes longer (module 04, section 5).
#
# ### *b* of networks that people train *(more)*
#
# TensorFlow's authors printed what one P100 does alone (its benchmarks page, 2017). Let each GPU have
# 25 Gbit/s.
#
# *Predict: of ResNet-50, VGG-16 and AlexNet, which needs the most images on each GPU?*

# %%
known = {}
for name in ("resnet50-64", "vgg16-64", "alexnet-512"):
    alone = published_scaling.table(f"tf-dgx1-{name}")[0]  # one GPU: images/s and batch
    gradients = model_layers.model(alone.model).parameter_bytes
    cost = interconnects.cost_of("25gbit")  # with the α that NCCL reckons with
    one = batch_scaling.Training(1 / alone.value, gradients, cost)
    known[alone.model] = (one, alone.batch)

# %%
needed = [one.break_even for one, _ in known.values()]
images = ", ".join(
    f"{name} {one.break_even:.0f} ({1e3 * one.seconds_per_image:.2g} ms each)"
    for name, (one, _) in known.items()
)
shares = ", ".join(
    f"{name} {one.weak(batch, 256) / 256:.0%} with {batch}" for name, (one, batch) in known.items()
)
conclude(
    needed == sorted(needed),
    f"**Answer.** *b* is, in images: {images}. So each of 256 GPUs would keep of its images/s: "
    f"{shares} images on each. That is with nothing hidden behind backward.",
    f"*b* is, in images: {images}; kept are {shares} images.",
)

# %% [markdown]
# AlexNet has few operations for its many parameters. A GPU is done with an image in a third of a
# millisecond, so hundreds of images have to hide what a few hide for ResNet-50.
#
# *Predict: S-Caffe trained GoogLeNet with a given batch on 32 K80, and on 160. How many times as fast?*

# %%
scaffe = {row.ranks: row.value for row in published_scaling.table("s-caffe-googlenet")}

# %%
fewer, more = sorted(scaffe)
conclude(
    scaffe[more] / scaffe[fewer] < 0.6 * more / fewer,
    f"**Answer.** {scaffe[more] / scaffe[fewer]:.1f} times, with {more / fewer:.0f} times as many GPUs "
    "(Awan et al. 2017, abstract). A batch that is shared out leaves each GPU fewer images, also "
    "where a good library sends its gradients.",
    f"{scaffe[more] / scaffe[fewer]:.1f} times.",
)

# %% [markdown]
# ## 3. Published tables, and a model with two constants
#
# Before one pays for 32 GPUs, one measures a few. In 2018 Microsoft published how many images/s
# ResNet-50 makes on virtual machines with four V100 each, joined by Ethernet (Salvaris 2018,
# [BatchAIHorovodBenchmark](https://github.com/msalvaris/BatchAIHorovodBenchmark)). Here are the
# first rows: up to the smallest size that uses the network.

# %%
from hpml.modules.m08_case_studies.lecture import scaling_findings
from hpml.predict import (
    by_factor,
    predict_run,
    published_predicted,
    published_scaling,
    scaling,
    scaling_fit,
    scaling_misses,
    scaling_picture,
)

ethernet = "azure-v100-resnet50-tcp"
beginning, the_rest = published_scaling.split(published_scaling.table(ethernet))
for row in beginning:
    print(f"{row.ranks:2} GPUs  {row.value:6,.0f} images/s  {row.value / row.ranks:4.0f} each")
print("to be predicted:", *(row.ranks for row in the_rest))

# %% [markdown]
# Eight GPUs make hardly more than four. What do 32 make?
#
# A model of one step has four parts that add up:
#
# | part | seconds |
# |---|---|
# | compute | batch / images/s of one GPU |
# | exposed communication | what is left of the all-reduces when backward has ended |
# | straggling | waiting for the slowest of *N* ranks: σ · compute · (the expected largest of *N* standard normal numbers) |
# | input | what loading takes longer than all of that |
#
# Backward is two thirds of compute, and goes from the last layer to the first; each layer has its
# share of the time by its FLOP. A bucket leaves when its last gradient is there *and* the bucket
# before it has arrived. Horovod's buckets hold 64 MiB (67 MB).
#
# *Predict: how many buckets does ResNet-50 fill, with 102 MB of gradients? Which one can nothing
# hide?*

# %%
run = published_predicted.training(published_scaling.table(ethernet))
filled = scaling.buckets(run)
for ready, nbytes in filled:
    lasts = scaling.bucket_seconds(run, nbytes, ranks=8)
    print(
        f"{nbytes / 1e6:5.1f} MB, ready after {1e3 * ready:3.0f} of {1e3 * run.compute:.0f} ms, "
        f"on its way for {1e3 * lasts:.0f} ms if the network reaches its rate"
    )

# %%
ready, nbytes = filled[-1]
seen = (
    f"{len(filled)} buckets. The last, of {nbytes / 1e6:.0f} MB, is ready after {1e3 * ready:.0f} "
    f"of {1e3 * run.compute:.0f} ms"
)
conclude(
    ready >= 0.99 * run.compute,
    f"{run.model.name} fills {seen}, when backward ends: nothing is left that could hide it.",
    f"{run.model.name} fills {seen}: the first layers have no parameters to send.",
)

# %% [markdown]
# Two constants are on no data sheet. The first is the share of the network's rate that is reached:
# TCP, shared links, copies to the processor's memory. (The source gives no rate, so it is a share of
# 100 Gbit/s.) The second is σ, by how much the ranks' steps differ. With *N* ranks everybody waits
# for the slowest, and among more ranks the slowest is slower: 0.6 σ for 2, 1.4 σ for 8, 2.8 σ
# for 256.
#
# Both are fitted on the rows above. Every pair on a grid is tried, and gets a weight: how well
# it explains the rows. What all of them predict, by weight, is the curve, and 90 in 100 of the
# weight are its interval. If the rows leave open which constant it was, the interval is wide. It
# grows a little with each doubling beyond the rows, since the model itself may be wrong there.
#
# *Predict: how many images/s do 32 GPUs make?*

# %%
over_ethernet = published_predicted.predict_table(ethernet)
unseen = [scaling_fit.Point(row.row.ranks, row.published) for row in over_ethernet.test]
publish_figure(
    "a published table, predicted",
    scaling_picture.scaling_picture(over_ethernet.fitted, [1, 2, 3, 4, 8, 16, 32], unseen),
    "ResNet-50 on machines of four V100 over Ethernet (Salvaris 2018). Black points fitted two "
    "constants, white ones were not seen. Right: where the time of a step goes, by the model.",
)

# %%
last, rows = over_ethernet.rows[-1], over_ethernet.test
inside = sum(row.published in row.interval for row in rows)
seen = (
    f"{last.predicted:,.0f} images/s are predicted, between "
    f"{last.interval.low:,.0f} and {last.interval.high:,.0f}; published are {last.published:,.0f}. "
    f"The worst of {len(rows)} rows that the fit had not seen is {over_ethernet.worst:.0%} off, "
    f"and {inside} of {len(rows)} lie in their interval."
)
why = scaling_misses.why_missed(over_ethernet)
conclude(
    over_ethernet.met,
    f"On {last.row.ranks} ranks {seen}",
    f"On {last.row.ranks} ranks {seen} Why, as far as its rows show: {why}.",
)

# %% [markdown]
# Read σ with care: whatever grows slowly with the number of ranks ends up in it, not only
# stragglers. A fit gives names to parts. Whether the names are right, only a trace shows (module 03).
#
# One table proves little, and it may have been chosen. Below, in a part marked *(more)*, are all that
# the course has found, with those that the model misses.

# %% [markdown]
# ### The same machines over InfiniBand *(more)*
#
# The parts of a step are what one pays for. These machines had InfiniBand as well.
#
# *Predict: which part of the step shrinks with the faster network, and which one cannot?*

# %%
over_infiniband = published_predicted.predict_table("azure-v100-resnet50-rdma")
for name, one in (("Ethernet", over_ethernet), ("InfiniBand", over_infiniband)):
    step, constants = one.fitted.predict(32).step, one.fitted.constants
    parts = ", ".join(f"{part} {1e3 * seconds:.0f} ms" for part, seconds in vars(step).items())
    print(f"{name:10} {parts}; σ {constants.straggling:.0%}, {constants.rate:.0%} of 100 Gbit/s")
    four = next(row for row in one.rows if row.row.ranks == 4)
    print(f"           4 GPUs of one machine: {four.published:,.0f} images/s; {four.row.method}")

# %%
found = scaling_findings.two_networks(over_ethernet, over_infiniband)
slow, fast = ({part: 1e3 * s for part, s in vars(one).items()} for one in (found.slow, found.fast))
seen = (
    f"On {found.ranks} ranks a step takes {sum(slow.values()):.0f} ms over the slow network and "
    f"{sum(fast.values()):.0f} ms over the fast one. Exposed are {slow['exposed']:.0f} and "
    f"{fast['exposed']:.0f} ms of it"
)
conclude(
    found.held,
    f"{seen}: that is what the faster network shortens. Computing, {slow['compute']:.0f} and "
    f"{fast['compute']:.0f} ms, it cannot. What the model calls straggling takes "
    f"{slow['straggling']:.0f} and {fast['straggling']:.0f} ms.",
    f"{seen}; most of the difference is {found.most}. Two constants can stand in for each other "
    "where few rows were fitted.",
)

# %% [markdown]
# Look at four GPUs in one machine, printed above: one library may lose more in the machine than
# another, and the model has no other place for it than σ.
#
# ### All published tables, and the misses *(more)*
#
# Here are all tables that the course has found: TensorFlow's benchmarks (2017), Horovod, Goyal et al.
# 2017, PyTorch DDP (Li et al. 2020), Piz Daint, DLPerf, MXNet on 1 to 256 K80 (2016), NVIDIA's BERT
# on 8 to 256 A100 (2022), MosaicML's decoders with FSDP on 8 to 128 (2024), and more. Of each the
# smallest sizes are fitted, by one rule for all (`hpml.predict.published_scaling.split`). A fair
# opponent needs no model: each rank stays as fast as on the largest size that was fitted.
#
# *Predict: how far off is the model in the median, and how far is the opponent?*

# %%
every_table, left_out = published_predicted.predicted()
publish_figure(
    "all published tables, predicted",
    scaling_picture.predicted_picture(every_table),
    "Efficiency of every row that was not fitted: images/s over those of as many single ranks.",
)

# %%
found = scaling_findings.all_tables(every_table)
median, worst = published_predicted.MEDIAN, published_predicted.WORST
seen = (
    f"{found.model:.1%} off in the median. If each rank stayed as fast as on the largest size that "
    f"was fitted, it would be {found.carried_on:.1%}. {found.met} tables are within {median:.0%} in "
    f"the median and {worst:.0%} in the worst row, and {found.inside:.0%} of the rows lie in their "
    "interval of 90 in 100"
)
rows = f"{found.rows} rows of {len(every_table)} tables"
conclude(
    found.held,
    f"{rows} were predicted, {seen}.",
    f"{rows} were predicted, {seen}: here the model is not worth its two constants.",
)

# %% [markdown]
# A row at twice the largest fitted size or less is easy: little changes there. A model is for what is
# far. Below are the rows by how many times the largest fitted size they are, with a second opponent:
# a straight line through each GPU's images/s over log₂ of the GPUs.
#
# *Predict: from which factor on is the model nearer than both opponents?*

# %%
by_distance = by_factor.groups(by_factor.rows(every_table))
print(by_factor.as_table(by_distance))

# %%
near, *far = by_distance
last = far[-1]
inside = ", ".join(f"{group.inside:.0%}" for group in by_distance)
seen = (
    f"Up to {near.factor} times, the same rate for each GPU is {near.same_rate:.1%} off and the model "
    f"{near.model:.1%}. Over {far[-2].factor} times it is {last.same_rate:.1%}, the line {last.line:.1%}, "
    f"the model {last.model:.1%}. The intervals of 90 in 100 hold {inside} of the rows (the last: "
    f"{last.count} rows)"
)
conclude(
    not near.ahead and all(group.ahead for group in far),
    f"**Answer.** Beyond {near.factor} times. {seen}. So for twice the GPUs you need no model.",
    f"{seen}.",
)

# %% [markdown]
# After first runs the model was changed once and its description of one kind of run once, which is
# written down in `hpml.predict.published_predicted`. The tables that it misses, the worst first, each
# with what its own rows show:

# %%
scaling_findings.Misses(every_table)

# %% [markdown]
# And these tables it cannot predict at all:

# %%
for name, why in left_out.items():
    print(f"{name}: {why}")

# %% [markdown]
# ### What a model cannot know *(more)*
#
# - What is not in the rows. If no row used the network between nodes, the share that is reached is
#   open, and the interval is wide. Measure one size beyond a node.
# - What begins later: a second switch, another group of GPUs in the machine, a loader that is too
#   slow for that many ranks. Two constants that were fitted before it do not have it.
# - What one rank does with another batch. The model scales weakly, each rank has its batch;
#   section 2 has the other case.
# - Noise. A row that was measured once, on a cluster with other users, may simply be off.
#
# `./hpml bench predict` prints every row.
#
# ### Predict your own runs *(more)*
#
# `--fit` takes a CSV with `ranks` and `images_per_s`, the `history.json` of
# `slurm/06_several_nodes.slurm`, and the `all_reduce.csv` of `slurm/01_allreduce.slurm`, for α and β.
#
# The figures of this example are made up: put your own into the file.
#
# *Predict: nothing is measured on this cluster. By which factor do the ends of the interval for 256
# ranks differ? And with three sizes measured?*

# %%
import tempfile
from pathlib import Path

asked = predict_run.Asked(model="resnet50", gpu="v100", per_node=8, network="25gbit", batch=64)
intervals = []
with tempfile.TemporaryDirectory() as folder:
    mine = Path(folder, "my_runs.csv")
    mine.write_text("ranks,images_per_s\n1,340\n8,2600\n16,4800\n")  # made up
    for files in ((), (mine,)):
        fitted_run = predict_run.predict_run(asked, files).fitted
        intervals.append(fitted_run.interval(256))
        predicted_256 = fitted_run.predict(256).images_per_s
        told_by = "my_runs.csv" if files else "no measurement"
        print(f"{told_by}: {predicted_256:,.0f} images/s, {intervals[-1]}")

# %%
wide, narrow = (one.high / one.low for one in intervals)
seen = (
    f"a measurement the upper end is {wide:.1f} times the lower one, with them {narrow:.1f} times"
)
conclude(
    narrow < wide,
    f"Without {seen}.",
    f"Without {seen}: these runs do not fit the model at all.",
)

# %% [markdown]
# ## 4. ImageNet in one hour: the arithmetic
#
# ResNet-50 on ImageNet, 90 epochs, took 29 hours on one server of eight P100. Goyal et al. 2017
# ([arXiv:1706.02677](https://arxiv.org/abs/1706.02677)) needed one hour on 32 such servers, with the
# same accuracy. What must a cluster have for that? The figures in these cells are theirs.
#
# Each of the 256 GPUs has 32 images in a step. How long may a step take?

# %%
from hpml.modules.m08_case_studies.lecture import imagenet_hour
from hpml.predict import published_scaling

gpus, images_each = 256, 32
hour_batch = gpus * images_each
hour_steps = 90 * 1_281_167 / hour_batch  # epochs · images (Russakovsky et al. 2015) / batch
step_ms = 3600 / hour_steps * 1e3
each_per_s = images_each / step_ms * 1e3
p100, *_ = published_scaling.table("tf-dgx1-resnet50-64")  # one GPU alone

# %%
conclude(
    each_per_s < p100.value,
    f"**Answer.** {hour_steps:,.0f} steps of {hour_batch} images in 3600 s: {step_ms:.0f} ms each, "
    f"{each_per_s:.0f} images/s on each GPU. A P100 alone trains {p100.value:.0f} with TensorFlow "
    "(its benchmarks page, 2017, batch 64). Compute is not an obstacle, if the gradients arrive in "
    "time.",
    f"a P100 alone trains {p100.value:.0f} images/s, and {each_per_s:.0f} are needed.",
)

# %% [markdown]
# The eight GPUs of a server add up their gradients over NVLink first, so each server is one rank on
# the network. Backward takes 120 ms; what is sent meanwhile costs no time.
#
# *Predict: which network does each server need: 1, 10 or 100 Gbit/s?*

# %%
parameters, backward_s, servers = 25e6, 0.120, 32
gradient_bytes = 4 * parameters  # float32
sent_bytes = 2 * (servers - 1) / servers * gradient_bytes  # of an all-reduce, by each server
needed_gbit = 8 * sent_bytes / backward_s / 1e9
for gbit in (10, 15, 25, 50):
    all_reduce_ms = 8 * sent_bytes / gbit / 1e6
    over_ms = max(0.0, all_reduce_ms - 1e3 * backward_s)
    print(f"{gbit:2d} Gbit/s: all-reduce {all_reduce_ms:4.0f} ms, {over_ms:3.0f} ms not hidden")

# %%
conclude(
    10 < needed_gbit < 15,
    f"**Answer.** {gradient_bytes / 1e6:.0f} MB of gradients, {sent_bytes / 1e6:.0f} MB sent, in "
    f"{1e3 * backward_s:.0f} ms: {needed_gbit:.1f} Gbit/s, and the paper asks for 15, with overhead. "
    "10 are too few, so of the three it takes 100; they had Ethernet of 50.",
    f"{needed_gbit:.1f} Gbit/s are needed.",
)

# %% [markdown]
# This is for perfect overlap; the last bucket is never hidden (that is what `predict_scaling` is
# about), and somebody is always late.
#
# ### The efficiency of that hour *(more)*
#
# The 13 Gbit/s are for perfect overlap. How much was hidden follows from the hours.
#
# *Predict: 29 hours on 8 GPUs, one hour on 256. Which efficiency is that, and how many ms of a step
# went to communication and waiting? Do these figures show that anything was hidden?*

# %%
alone_ms = 29 * 3600e3 / (90 * 1_281_167 / 256)  # a step of eight GPUs
efficiency = alone_ms / step_ms
added_ms = step_ms - alone_ms
# Half an hour of 29, and three minutes of one, may be lost in rounding
rounded_ms = alone_ms * 0.5 / 29 + step_ms * 3 / 60

# %%
conclude(
    0.85 < efficiency < 0.95 and abs(added_ms - all_reduce_ms) < rounded_ms,
    f"**Answer.** {efficiency:.0%}; the paper reports about 90 %. A step grew from {alone_ms:.0f} to "
    f"{step_ms:.0f} ms, by {added_ms:.0f} ± {rounded_ms:.0f} ms, as hours are rounded. An all-reduce "
    f"takes {all_reduce_ms:.0f} ms at {gbit} Gbit/s. So no. Nor does section 5.5: with 44 times the "
    f"GPUs a step takes 12 % longer, and a whole all-reduce would be {all_reduce_ms / alone_ms:.0%}. "
    "Totals do not show what was hidden. A trace does (module 03).",
    f"{efficiency:.0%}, with {added_ms:.0f} ± {rounded_ms:.0f} ms not hidden; the paper has about 90 %.",
)

# %% [markdown]
# ### The difficult part: the batch
#
# With 32 times the batch there are 32 times fewer updates, and each must go as far as 32 did. *Linear
# rule*: 32 times the learning rate, 3.2 in place of 0.1. *Gradual warm-up*: it rises to that over the
# first five epochs.
#
# *Predict: how large may the batch become before the error grows? And at 8192, what does it cost to
# leave out warm-up?*

# %%
publish_figure(
    "ImageNet in one hour: error over batch",
    imagenet_hour.error_picture(),
    "Top-1 validation error of ResNet-50 after 90 epochs, as published by Goyal et al. 2017.",
)

# %%
found, by_batch = imagenet_hour.found(), imagenet_hour.errors()
most, last = found.batch, max(by_batch)
ways = ", ".join(f"{way} {error:.2f} %" for way, error in found.others.items())
conclude(
    found.held,
    f"**Answer.** Up to {most}: {by_batch[most]:.2f} %, and {by_batch[256]:.2f} % with 256 "
    f"(standard deviation of five runs: {imagenet_hour.SPREAD}). At {2 * most} it is "
    f"{by_batch[2 * most]:.2f} %, at {last} {by_batch[last]:.2f} %. At {most} in other ways: "
    f"{ways}.",
    f"the error stays up to a batch of {most}; at 8192: {ways}.",
)

# %% [markdown]
# So it is the batch that ends this curve, not the network: more GPUs need more images in a step, or
# each has less to do (section 2). Optimizers that move the limit: module 04, section 4, and section 11
# here.

# %% [markdown]
# ## 5. What it costs, and where to stop *(more)*
#
# A run on more GPUs takes less time. What it costs is nodes times hours times the price of a node for
# an hour, and **one pays for whole nodes**. If twice the nodes were twice as fast, the bill would stay
# the same. What is missing from that is paid for.
#
# Here are two published tables of ResNet-50 on virtual machines with four V100 each (Salvaris 2018,
# section 3): a node-hour is four GPU-hours. In one, nodes are connected by InfiniBand with RDMA and
# Intel's MPI sends, in the other by TCP, with NCCL. The run is 90 epochs of ImageNet. Prices change from month to month: put yours in
# place of 1 node-hour, as in `2.5, "EUR"`.
#
# *Predict: over TCP, what part of what the first node brings does the second one bring?*

# %%
from hpml.modules.m08_case_studies.lecture import energy, run_cost, training_energy
from hpml.predict.published_scaling import table

node_hour, paid_in = 1.0, "node-hours"  # your price of a node for an hour, in your currency
ninety_epochs = 90 * 1_281_167  # images
over_tcp = run_cost.sizes(table("azure-v100-resnet50-tcp"), ninety_epochs, node_hour)
over_rdma = run_cost.sizes(table("azure-v100-resnet50-rdma"), ninety_epochs, node_hour)
publish_figure(
    "cost against time",
    run_cost.cost_picture(
        {"TCP": over_tcp, "RDMA": over_rdma},
        "Over TCP, what more nodes cost is hardly less time",
        paid_in,
    ),
    "Cost over hours of a run, a point for each number of nodes, with the knee of each network.",
)

# %%
slow, fast = run_cost.gains(over_tcp)[0], run_cost.gains(over_rdma)[0]
twice, little = (curve[1].cost / curve[0].cost for curve in (over_tcp, over_rdma))
knees = (run_cost.knee(curve).nodes for curve in (over_tcp, over_rdma))
at_tcp, at_rdma = (f"{nodes} node" + "s" * (nodes > 1) for nodes in knees)
seen = (
    f"the second node brings {100 * slow:.1f} % of what the first one does, and the run costs "
    f"{twice:.2f} times as much on two nodes as on one. Over the fast one it brings "
    f"{100 * fast:.0f} %, and the run costs {little:.2f} times as much"
)
library = over_rdma[0].cost / over_tcp[0].cost
conclude(
    slow < run_cost.WORTH <= fast,
    f"Over the slow network {seen}. The knee is at {at_tcp} and at {at_rdma}. On one node, which needs "
    f"no network, the run costs {library:.2f} times as much in RDMA's table: that is the library. So "
    "each curve is held against its own first node.",
    f"Over the slow network {seen}: in these tables crossing a node boundary is not what decides.",
)

# %% [markdown]
# At the knee the next nodes begin to bring less than they should. How much that is, is your decision:
# here each added node must bring at least half of what the first one does. In a hurry one asks for
# less.
#
# *Predict: by how many nodes does RDMA's knee move, if an added node must bring 0.8 of the first?*

# %%
for worth in (0.5, 0.7, 0.8, 0.9):
    stop = run_cost.knee(over_rdma, worth)
    print(f"{worth}: nodes: {stop.nodes}, hours: {stop.hours:.1f}, {paid_in}: {stop.cost:.0f}")

# %% [markdown]
# The exercise `find_the_knee` adds a deadline.
#
# ### Energy, where the processor counts it *(more)*
#
# Power is a part of the price. Processors of Intel and AMD count their joules (RAPL, running average
# power limit), NVIDIA's GPUs since Volta do too, and `hpml.modules.m08_case_studies.lecture.energy` reads both. A counter has
# the whole processor in it: caches, idle cores, other people's programs. Not in it are the network,
# the fans and, on some processors, memory.
#
# Many machines do not show their counters. Virtual machines rarely have any. Elsewhere Linux shows
# them to root alone since 2020, because energy can give secret keys away
# ([CVE-2020-8694](https://nvd.nist.gov/vuln/detail/CVE-2020-8694)). Then the cell prints the reason.
#
# Two threads draw more power than one. Where there is a counter, the cell says whether they take more
# energy for an image, or less.

# %% tags=["nbval-ignore-output"]
try:
    energies = training_energy.by_threads(energy.processors())
    print(training_energy.table(energies))
except UserError as error:
    energies = None
    skip("joules for an image", str(error))
try:
    print(training_energy.table(training_energy.on_gpu(energy.gpus())))
except UserError as error:
    skip("joules for an image on a GPU", str(error))

# %% tags=["nbval-ignore-output"]
if energies:
    found = training_energy.first_and_last(energies)
    seen = "; ".join(
        f"{way}: {one.watts:.0f} W, {one.least:.2f} to {one.most:.2f} mJ for an image"
        for way, one in found.ways.items()
    )
    _, last = found.ways
    why = f"The time that {last} save does not make up for the power that they draw."
    if found.less:
        why = (
            f"{last} draw more power, for a shorter time. Part of the power does not depend on how "
            "many cores compute, and the sooner one is done, the less of that one pays."
        )
    conclude(
        found.held,
        f"**Answer.** {'Less' if found.less else 'More'}. {seen}. {why}",
        f"{seen}: some rounds of both are alike, so no difference can be seen. Other programs are "
        "in the count.",
    )

# %% [markdown]
# ## 6. Layer by layer, or all at once; flat, or in two levels *(more)*
#
# Two ideas of 2017. S-Caffe sends each layer's gradients while backward goes on, in place of the whole
# model after it ([Awan et al. 2017, PPoPP](https://nbcl.cse.ohio-state.edu/publication/859/plain),
# abstract). PowerAI DDL adds up along several rings, which adapt to the system and its levels: nodes, and what joins them
# ([Cho et al. 2017](https://arxiv.org/abs/1708.02188), abstract). Module 03, section 8, has seen that
# messages hide behind backward; module 05, section 7, that two levels send less between nodes. Here:
# for which models, and what do both come to with 256 GPUs?
#
# Eight layers have 1 MB of gradients together. Each waits 20 ms in backward, in place of computing.
# In one network the last layer has 86 % of the bytes: VGG-16 is like that, with its fully connected
# layers. In one all layers are alike, as in a transformer. In one the first layer has 86 %, as with
# a large table of embeddings.
#
# *Predict: for which of the three does sending layer by layer gain most? For which hardly anything?*


# %%
def backward_steps(work):
    """Three times backward: `counts` of gradients by layer, the last layer first."""
    import time

    import torch
    import torch.distributed as dist

    from hpml.ranks import mark

    counts, way = work
    gradients = [torch.ones(count) for count in counts]
    for _ in range(3):
        dist.barrier()
        mark("backward")
        sent = []
        for gradient in gradients:
            time.sleep(0.020)
            if way == "layer by layer":
                sent.append(dist.all_reduce(gradient, async_op=True))
        mark("still sending")
        if way == "all at once":
            sent.append(dist.all_reduce(torch.cat(gradients), async_op=True))
        for handle in sent:
            handle.wait()
        mark("done")


# %% tags=["nbval-ignore-output"]
from hpml.modules.m08_case_studies.lecture import BUSY, layer_wise, rank_order
from hpml.predict import collectives, interconnects, model_layers
from hpml.trace import launch_timeline, repetition

networks = {
    "bytes in the last layer": [215_000] + 7 * [5_000],
    "bytes in all layers": 8 * [31_250],
    "bytes in the first layer": 7 * [5_000] + [215_000],
}
sending, predicted, bounds = {}, {}, {}
for name, counts in networks.items():
    by_model = layer_wise.exposed(counts, layer=0.020, ranks=4, rate=100e6)
    for way in layer_wise.WAYS:
        evidence = launch(backward_steps, 4, inputs=[(counts, way)] * 4, link="100mbit")
        sending[name, way] = repetition.phases(evidence, ["backward", "still sending", "done"])
        predicted[name, way] = by_model[way]
        last = counts[-1] if way == "layer by layer" else sum(counts)
        sent = collectives.all_reduce_bytes(4, 4 * last)
        bounds[f"{name}, {way}"] = collectives.seconds(sent, 100e6)

# %% tags=["nbval-ignore-output"]
display(
    launch_timeline.phase_bars(
        {f"{name}, {way}": parts for (name, way), parts in sending.items()},
        bounds,
        title="What the first layer sends, which is ready last, cannot be hidden",
    )
)

# %% tags=["nbval-ignore-output"]
measured = {key: parts["still sending"] for key, parts in sending.items()}
found = layer_wise.hidden(measured, predicted)
listed = ", ".join(f"{share:.0%} with the {name}" for name, share in found.measured.items())
predictor = ", ".join(f"{share:.0%}" for share in found.predicted.values())
conclude(
    found.held,
    f"**Answer.** Layer by layer hides this much of the waiting: {listed}. The predictor has "
    f"{predictor}.",
    f"layer by layer hides {listed}. {BUSY}",
)

# %% [markdown]
# The black line is the message that leaves last: the whole model, or the first layer.
#
# S-Caffe and an MPI were made for each other: MVAPICH2-GDR sends from a GPU's memory, and its reductions
# go on while layers compute. Is such an MPI better than NCCL? Its authors then made its broadcast up to
# 16.6 times as quick as one by NCCL between nodes, and the training of VGG on 128 GPUs up to 7 % ([Awan et
# al. 2018](https://arxiv.org/abs/1707.09414), abstract). A message is not a step: ask which part of a step
# it is, and whether anything hides it.
#
# *Predict: VGG-16 ends with three fully connected layers. Which share of the bytes have they? Of the
# operations?*

# %%
vgg = model_layers.model("vgg16")
found = layer_wise.last_layers(vgg, 3)
seen = (
    f"the last 3 of {len(vgg.layers)} layers of {vgg.name} have {found.of_bytes:.0%} of the bytes "
    f"and {found.of_flop:.1%} of the operations"
)
conclude(
    found.held,
    f"That suits networks of the day: {seen}. Their gradients are there soon after backward "
    "begins, and nearly all of it is left to hide them.",
    f"{seen}.",
)

# %% [markdown]
# Now the network. Two nodes of four ranks, 1 Gbit/s for each rank and 100 Mbit/s between the nodes.
# Each rank has 1 MB. A ring has an order: SLURM deals ranks out to the nodes one by one with
# `--distribution=cyclic`, and keeps neighbours together with `block`.
#
# *Predict: how many MB leave a node in a ring over ranks 0, 1, 2, … where neighbours are on one node?
# And where they are dealt out in turn? In two levels?*

# %% tags=["nbval-ignore-output"]
crossed = rank_order.measure(nodes=2, per_node=4, inside=1000, between=100, length=250_000)
if crossed is None:
    skip("the order of ranks in a ring", "no network can be emulated here")
else:
    print(rank_order.table(crossed))

# %% tags=["nbval-ignore-output"]
if crossed:
    ordered, dealt, two = crossed.values()
    seen = (
        f"{dealt.sent:.1f} MB leave a node where its ranks are dealt out, {ordered.sent:.1f} MB "
        f"where they are neighbours, {two.sent:.1f} MB with two levels"
    )
    conclude(
        rank_order.order_counts(crossed),
        f"**Answer.** {seen}. The time goes with the bytes: {dealt.seconds / ordered.seconds:.1f} "
        "times as long for the same ring in another order.",
        f"{seen}; the times were {1e3 * dealt.seconds:.0f}, {1e3 * ordered.seconds:.0f} and "
        f"{1e3 * two.seconds:.0f} ms. {BUSY}",
    )

# %% [markdown]
# A flat ring is as good as its order, and a library that does not know the nodes cannot choose it.
# NCCL reads the topology of its nodes. (The seconds by bytes leave out the latency of
# each step; eight ranks on a few cores have more of it than a cluster.)
#
# Last, both together, by the predictor of section 3: ResNet-50 on 64 nodes of four P100, which the
# published table has at 219 images/s each (section 4), NVLink within the nodes and 25 Gbit/s between them.
#
# *Predict: layer by layer sends 54 messages. Over a flat ring of 256 ranks in good order, is that
# better than all at once? Better than buckets of 25 MiB?*

# %%
cluster = interconnects.nodes(4, interconnects.INSIDE["nvlink1"], interconnects.cost_of("25gbit"))
resnet = model_layers.model("resnet50")
both = layer_wise.on_a_cluster(resnet, 219, batch=64, network=cluster, ranks=256)
print(layer_wise.table(both))

# %%
found = layer_wise.efficiencies(both)
(whole, single, buckets), (all_at_once, by_layer, in_buckets) = (
    [f"{share:.0%}" for share in one.values()] for one in (found.flat, found.levels)
)
seen = (
    f"{whole} with all at once over a flat ring, {single} layer by layer, {buckets} in buckets; "
    f"{all_at_once}, {by_layer} and {in_buckets} with two levels"
)
conclude(
    found.held,
    f"**Answer.** The efficiency is {seen}. Small messages need an all-reduce with few steps.",
    f"the efficiency is {seen}.",
)

# %% [markdown]
# In a ring of 256 ranks each piece of a message makes 510 hops, 126 of them between nodes. In two
# levels it makes 6 within nodes and 126 between them. So many small messages are cheap in two levels
# only. Buckets are the way out if you have a flat ring. (PowerAI DDL reports 95 % of perfect scaling
# with 256 GPUs, of ResNet-50: [Cho et al. 2017](https://arxiv.org/abs/1708.02188).)

# %% [markdown]
# ## 7. Choosing a layout *(more)*
#
# A model too large for one GPU can be split by data, by tensor, by pipeline, and its states can be
# sharded. Module 07, section 13, chose by formula: bytes of states and activations, the bubble, what
# travels and what hides it. Those formulas are `hpml.predict.which_split`. Here is what they choose
# from: a transformer of 7 billion parameters, on 64 GPUs of 80 GB, eight in a node.
#
# *Predict: how many layouts are there: 20, 200, 20,000? And how much longer does the slowest one that
# fits take than the fastest?*

# %%
from hpml.modules.m08_case_studies.lecture import layer_ways, layout_space
from hpml.predict import model_layers, which_split

seven_billion = which_split.Transformer(36, 4096, tokens=2**21, sequence=2048)


def by_link(gbit):
    """64 GPUs with 400 TFLOP/s; 450 GB/s inside a node, so many Gbit/s to other nodes."""
    cluster = which_split.Cluster(64, 8, 80e9, 400e12, inside=450e9, between=gbit * 1e9 / 8)
    return list(which_split.layouts(seven_billion, cluster))


every_layout = {f"{gbit} Gbit/s": by_link(gbit) for gbit in (400, 25)}
for name, found in every_layout.items():  # this is the whole search
    fastest = min(which_split.fitting(found, 80e9), key=lambda one: one.seconds)
    print(f"{name:10}  {fastest}, {fastest.micro_batches} micro-batches: {fastest.seconds:.2f} s")
publish_figure(
    "layout-space",
    layout_space.space_picture(every_layout, 80e9),
    "Each layout of 7 billion parameters on 64 GPUs, by formula. Dashed: the memory of a GPU.",
)

# %%
found = layout_space.search(every_layout, 80e9)
(fast, slow), (near, far) = every_layout, found.spreads
seen = (
    f"Of {found.layouts} layouts {found.fitting} fit. With {fast} the fastest is {found.fast}, in "
    f"{found.fast.seconds:.2f} s, and the slowest that fits takes {near:.1f} times as long; with "
    f"{slow}, {far:.0f} times. There {found.fast} takes {found.carried:.2f} s, and the fastest is "
    f"{found.slow}, in {found.slow.seconds:.2f} s: each of a node's eight links carries a part of what "
    "the node sends. The best choice hardly changes, and a bad one is dear."
)
conclude(found.held, f"**Answer.** {seen}", f"The slow network changes little: {seen}")

# %% [markdown]
# So few that a computer tries all of them. They are few because **all layers are split alike**. In a
# convolutional network each layer has other weights and activations (the table below). Let each of
# them choose: by images ("data": an all-reduce of its gradients) or by outputs ("tensor": all images
# are sent to each rank). With 16 layers that makes 2 to the power of 16 combinations, and with
# thousands of operators more than anybody can try.
#
# Two searches that do not try all:
#
# - **Dynamic programming** (Tofu, Wang et al. 2019): go from layer to layer, and for each way to
#   split this one keep only the cheapest way to get there.
# - **A random walk** (FlexFlow, Jia et al. 2018): change one layer; keep the change if a simulated
#   step is better, and now and then if it is not.
#
# *Predict: which layers of VGG-16 should be split by tensor? And how many prices does dynamic
# programming ask for?*

# %%
chain = layer_ways.Chain(model_layers.model("vgg16"), ranks=8, batch=256)
tried = layer_ways.try_all(chain)
planned = layer_ways.dynamic_programming(chain)
walked = layer_ways.random_walk(chain)
for layer, way in zip(chain.model.layers, planned.ways, strict=True):
    sizes = f"{layer.parameter_bytes / 1e6:6.1f} MB weights"
    print(f"{layer.name:8} {sizes}, {256 * layer.activation_bytes / 1e6:7.1f} MB out  {way}")

# %%
ways = zip(chain.model.layers, planned.ways, strict=True)
split = ", ".join(layer.name for layer, way in ways if way == "tensor")
by_data = chain.sent(["data"] * len(planned.ways)) / 1e6
seen = f"{split} by tensor, all else by data: {planned.nbytes / 1e6:.0f} MB"
conclude(
    layer_ways.linear_alone(chain, planned, tried, walked),
    f"**Answer.** {chain.model.name} has {tried.priced:,} combinations. The best: {seen} that "
    f"each of {chain.ranks} ranks sends in a step; with data parallelism {by_data:.0f} MB. "
    f"Dynamic programming found it with {planned.priced} prices of a layer, the random walk "
    f"after {walked.priced} prices of a whole network.",
    f"Trying all came to {tried.nbytes / 1e6:.0f} MB, dynamic programming to {seen}, the random "
    f"walk to {walked.nbytes / 1e6:.0f} MB. A walk may end before it is there: give it more steps.",
)

# %% [markdown]
# By hand this was found for AlexNet: convolutions by data, linear layers by model (Krizhevsky 2014, *One
# weird trick for parallelizing convolutional neural networks*, arXiv:1404.5997).
#
# Both papers have more ways to split each operator, and FlexFlow's price is a simulated time. The
# three parts are those above: a space of legal layouts, a price, a search. A search is as good as its
# price: what that leaves out (here latency, and operators that are slow when they are small), no
# search can see. So measure the best few.
#
# **Now**, if you like: `choose_layout`, where you write the price and the search.

# %% [markdown]
# ## 8. A scaling study as one submission *(more)*
#
# Would eight nodes be worth it on *your* cluster? Measure on 1, 2 and 4 first. For jobs of an hour
# that costs 1 + 2 + 4 node-hours, where eight nodes cost 8, and it leaves a curve to predict the
# eight from.
#
# ```
# sbatch slurm/08_scaling.slurm                         a job each for 1, 2 and 4 nodes
# sbatch slurm/08_scaling.slurm 2 4 8 16 --batch 32     1, 2, 4, 8 and 16 nodes, a smaller batch
# ```
#
# An array of jobs does not do it: its jobs all have the same size
# ([Job Array Support](https://slurm.schedmd.com/job_array.html)). So the first job submits the others
# (`slurm/study.sh`). Each waits for the one before it, `--dependency=afterok:NUMBER`: the network is
# measured by one at a time, and where a job fails, no larger one starts. Every job measures a
# training step, with and without sending, and α and β. Then it draws the curve anew, from all jobs
# so far, and predicts the next. If that is not worth its price, `scancel` the next job, and the
# larger ones leave the queue as well.
#
# The log of the second job ends like this (four virtual nodes, `./hpml cluster up`):
#
# ```
# 2 ranks on 2 nodes: … images/s, … of what they do without sending
# 4 ranks are predicted: … images/s (… to …), … efficient
# ```
#
# Here is the same program on this machine's links of 200 Mbit/s. Its ranks wait, 4 ms for each of 32
# images, in place of computing (`--wait 0.004`): there are more of them than cores. 1, 2 and 4 ranks
# are the first three jobs, 8 ranks the last.
#
# *Predict: a small residual network has 1.2 MB of gradients. From 2 and 4 ranks, how well can 8 be
# predicted: within 5 %, 20 %, 50 %?*

# %% tags=["nbval-ignore-output"]
from hpml.bench import scaling_sizes, scaling_study
from hpml.modules.m08_case_studies.lecture import BUSY
from hpml.predict import scaling_picture

OPTIONS = "--wait 0.004 --batch 32 --steps 4 --threads 1 --widths 32,64,128"
try:
    study = scaling_study.on_links((1, 2, 4, 8), link="200mbit", options=OPTIONS)
except UserError as error:
    study = None
    skip("a scaling study on links", str(error), lead=True)

# %% tags=["nbval-ignore-output"]
if study:
    fitted, unseen = scaling_sizes.fitted_and_unseen(study)
    publish_figure(
        "a scaling curve of this machine, predicted and measured",
        scaling_picture.scaling_picture(
            fitted, [1, 2, 4, 8, 16, 32], [one.point for one in unseen], points="measured"
        ),
        "Ranks that wait in place of computing, and average gradients over links of 200 Mbit/s. Two "
        "constants are fitted on 2 and 4 ranks; 8 ranks are predicted and measured.",
        lead=scaling_sizes.lead(fitted, unseen),  # the front page of ./hpml run begins with it
    )

# %% tags=["nbval-ignore-output"]
if study:
    found = scaling_sizes.largest(fitted, unseen)
    points = " and ".join(str(point.ranks) for point in fitted.points)
    seen = (
        f"{points} ranks {found.predicted:.0f} images/s were predicted for {found.size.ranks} "
        f"({found.interval.low:.0f} to {found.interval.high:.0f}), and "
        f"{found.size.images_per_s:.0f} measured"
    )
    conclude(
        found.held,
        f"**Answer.** From {seen}: {found.off:+.0%}. A rank keeps {found.kept:.0%} of its "
        "images/s alone.",
        f"from {seen}. {BUSY}",
    )

# %% [markdown]
# The table is in `build/jobs/NUMBER/scaling.csv`, where `NUMBER` is that of the first job, and the
# picture beside it. `./hpml predict --fit build/jobs/NUMBER/scaling.csv` goes on from there. On a
# cluster that allows no `sbatch` inside of jobs, submit the others yourself:
# `SCALING_STUDY=NUMBER sbatch --nodes=2 slurm/08_scaling.slurm`.
#
# `slurm/08_scaling_gpu.slurm` is the study for GPUs, over NCCL. No GPU was at hand for this page.

# %% tags=["nbval-ignore-output"]
import shutil

if not shutil.which("sbatch"):
    skip("a scaling study on nodes", "there is no SLURM here; slurm/08_*.slurm are what you submit")

# %% [markdown]
# ## 9. Where it went *(more)*
#
# What became of the ideas of this day, at sizes that no workshop can show? Each row of the table is a
# claim as its authors report it: nothing was measured again here. On the right is the exercise of this
# course whose idea it needs.
#
# *Predict: on the exercises of which module do most rows rest?*

# %%
from IPython.display import Markdown, display

from hpml.modules.m08_case_studies.lecture import interruptions, where_it_went

later = where_it_went.claims()
display(Markdown(where_it_went.table(later)))

# %%
found = where_it_went.mostly(later)
conclude(
    found.held,
    f"**Answer.** On module {found.first}, for {found.most} of {len(later)} rows; no other has more "
    f"than {found.next_most}. All {len(later)} together rest on {found.exercises} exercises, from "
    f"the modules {', '.join(found.modules)}.",
    f"modules {found.first} and {found.second} both have {found.most} of {len(later)} rows.",
)

# %% [markdown]
# What is automatic in the last rows is the search. What it asks is a model of cost, with memory and
# messages: yours of `predict_scaling` and `choose_layout` are small ones of this kind.
#
# A synchronous step has one more price, which no table of images/s shows: all ranks wait for one
# that is broken. Take the figures of Llama 3, and suppose that each GPU, with its share of the machine,
# fails equally often and independently of the others.
#
# *Predict: how many hours are between two interruptions, on 16,384 GPUs and on 256 of them?*

# %%
llama = interruptions.Run(gpus=16_384, days=54, interruptions=419)

# %%
whole, part = llama.hours_between(16_384), llama.hours_between(256)
conclude(
    whole < 24 < part,
    f"**Answer.** On average {whole:.1f} hours on 16,384 GPUs, {part / 24:.1f} days on 256. A day "
    f"without interruption has a probability of {llama.undisturbed(24, 256):.0%} on 256 GPUs, and "
    f"of {llama.undisturbed(24, 16_384):.2%} on 16,384.",
    f"{whole:.1f} hours on 16,384 GPUs, {part:.1f} hours on 256.",
)

# %% [markdown]
# So a long job needs `checkpoint` (module 06). The more GPUs it has, the more often it has to save. If
# saving takes *C* and two interruptions are *M* apart on average, least is lost when √(2 *C* *M*) lie
# between two checkpoints (Young 1974; Daly 2006 has the next terms). With a minute and 3.1 hours that
# is every 19 minutes.

# %% [markdown]
# ## 10. The race *(more)*
#
# The last question of the day is yours: after how many seconds of training does *your* machine get 42 % of
# the test images right? That is little, so that a try takes seconds and not hours; the full race goes to 90 %. Seconds to an
# accuracy have two factors:
#
# seconds = images needed ÷ images/s
#
# Batch, learning rate and the number of epochs move the first. The other improvements of the day move
# the second. Some move both, in opposite directions: a larger batch has more images/s, and may need
# more images.
#
# | switch | off | on | module |
# |---|---|---|---|
# | `--loader` | `images`: one at a time | `batch`, or `ahead` in a thread | 02, 03 |
# | `--layout` | `contiguous` | `channels_last` | 02, 03 |
# | `--precision` | `fp32` | `bf16` | 02 |
# | `--threads` | 1 | more | 02 |
# | `--ranks` | 1 | more; they share each batch | 01, 06 |
# | `--bucket-mib` | 0: each gradient alone | 25 | 02, 05 |
# | `--batch`, `--lr`, `--epochs` | 256, 0.1, 8 | yours | 01 |
# | `--compile` | no | yes | 04 |
#
# `./hpml race` is a try with everything off. Here are two: that one, and one with three switches on.
# The clock starts when the first batch is read, and stops at the end of the test that reached the
# goal. Tests are counted, and so is compiling. Starting processes is not.
#
# *Predict: images one at a time, contiguous, one rank; then whole batches, `channels_last`, two
# ranks. How many times as fast, and by which factor?*

# %% tags=["nbval-ignore-output"]
from dataclasses import replace

from hpml.modules.m08_case_studies.lecture.race_factors import factors
from hpml.record import kept, pictures
from hpml.train.race import board, goals, picture, start, table, tries

race_goal = goals.GOALS["laptop"]
print(f"goal: {race_goal.in_words()}")
all_off = start.run_try(race_goal)
three_on = start.run_try(
    race_goal, replace(race_goal.off, loader="batch", layout="channels_last", ranks=2)
)

# %% tags=["nbval-ignore-output"]
print(table.of_tries([all_off, three_on], race_goal))
publish_figure(
    "the race: two tries",
    picture.race_picture([all_off, three_on], race_goal),
    "Accuracy on the test images against seconds: a try with every improvement of the day off, and "
    "one with three of them on. The goal is the dashed line.",
)

# %% tags=["nbval-ignore-output"]
if found := factors(all_off, three_on):
    seen = (
        f"{all_off.seconds:.1f} s became {three_on.seconds:.1f} s. Images needed: "
        f"{all_off.images:,}, then {three_on.images:,}; images/s: "
        f"{all_off.images_per_second:,.0f}, then {three_on.images_per_second:,.0f}"
    )
    gain = f"{found.gain:.1f} = {found.need:.2f} × {found.rate:.2f}"
    conclude(
        found.held,
        f"**Answer.** {seen}. So the gain is {gain}, and most of it is from images/s: these "
        "switches change the time of a step, and not what a step learns.",
        f"{seen}: the gain is {gain}. The ranks had no core each, or one try just missed the goal "
        "at a test, and reached it an epoch later.",
    )
else:
    missed = next(one for one in (all_off, three_on) if one.status != tries.REACHED)
    why = f"{table.settings(missed, race_goal)}: {table.outcome(missed)}"
    conclude(
        False,
        "Both tries reach the goal.",
        f"one of the two tries has no time to compare ({why}).",
    )

# %% [markdown]
# Which of the three was it? Turn **one at a time**, in a terminal:
#
# ```
# ./hpml race --loader batch              one switch; the chart has all of your tries
# ./hpml race --from-best --ranks 2       the next, on top of your best try
# ./hpml race --from-best --compile       does it pay back its first step?
# ```
#
# A switch that saves a tenth of a step is lost in the noise of a busy machine: close the browser's
# other tabs, and try again. A try that fails, or that you interrupt, is kept as such.
#
# A class that shares a folder has a board: `--board DIR`, or `HPML_BOARD`. Each learner writes one
# file and reads all of them. Here the folder has a second file, of which only half was written.
#
# *Predict: what does the half-written file do to the board?*

# %% tags=["nbval-ignore-output"]
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as shared:
    board.publish(Path(shared), "you", [all_off, three_on])
    Path(shared, "torn.race.json").write_text('{"race": 1, "name": "so')
    on_board, torn = board.read(Path(shared), race_goal, all_off.synthetic)
print(table.of_board(on_board, torn, race_goal))

# %% tags=["nbval-ignore-output"]
conclude(
    len(on_board) == len(torn) == 1,
    "**Answer.** Nothing: it is skipped by name, and your row stands. Files in a folder that others "
    "write to are read with suspicion, and your own is replaced as a whole or not at all.",
    "neither try has reached the goal, so there is no row of yours.",
)

# %% [markdown]
# The board shows what each machine reported: that is not a proof, and two laptops are two different
# machines. What can be compared is how many times as fast as all off you became.
#
# On a GPU the goal is 90 % of all test images, with the whole network (`--goal full`).

# %% tags=["nbval-ignore-output"]
try:
    trained = kept.recorded("training")
except UserError as why:
    trained = None
    skip("training on a GPU", str(why))
else:
    publish_figure(
        "training on a GPU",
        pictures.training_picture(trained, title="Accuracy against seconds on a GPU"),
        f"{trained.origin}. Accuracy on the test images against seconds of training.",
    )

# %% tags=["nbval-ignore-output"]
if trained:
    found = pictures.reached(trained)
    goals_reached = " and ".join(
        f"{goal:.0%} after {seconds:.1f} s ({run['recipe']}, {run['precision']})"
        for goal, (seconds, run) in found.first.items()
    )
    seen = f"{goals_reached or '90 % is not reached'}; the best ends at {found.best:.1%}"
    note = ""
    if found.synthetic:
        note = " The images are SYNTHETIC."
    elif found.packed:
        note = " The images had been packed as JPEG packs them, which costs accuracy."
    conclude(found.held, f"**Recorded.** {seen}.{note}", f"{seen}.{note}")

# %% [markdown]
# ## 11. How large may a batch be? *(more)*
#
# More GPUs make a larger batch, and with the epochs fixed, fewer steps. Goyal et al. could go to 8192
# images on ImageNet (section 4). Where is the limit on the day's images, and do LARS and LAMB (module
# 04, section 4) move it?
#
# A small network has to do: four hidden layers, as in module 01, section 4, and 8192 images, averaged
# to 8×8 pixels. After six epochs it is tested on 2000 others. Each optimizer's rate is the best one
# with a batch of 64 (of a grid by factors of two, mean of four seeds, real images), and follows the
# batch from there. `power=1` is the linear rule, 0.5 the square root, which LAMB's authors use ([You
# et al. 2020](https://arxiv.org/abs/1904.00962), section 4). LARS gets it here too, and SGD has both.
# Warm-up takes the first epoch. Then rates go down to 0 in a line. A network that diverges ends at
# chance: 10 %.
#
# *Predict: with 4096 images there are 12 steps. Up to which batch does each rule keep the accuracy of
# 64 images? Which of them learn anything in 12 steps?*

# %% tags=["nbval-ignore-output"]
from hpml.data import load
from hpml.frameworks.lars import LARS
from hpml.modules.m08_case_studies.lecture import (
    lamb,
    large_batch,
    large_batch_findings as findings,
    large_batch_picture,
)

Rule, sgd = large_batch.Rule, large_batch.sgd
batch_rules = {
    "linear rule": Rule(sgd, rate=0.04, power=1, warm_up=False),
    "linear, with warm-up": Rule(sgd, rate=0.04, power=1),
    "SGD √": Rule(sgd, rate=0.04, power=0.5),
    "LARS √": Rule(LARS, rate=2.0, power=0.5),
    "LAMB √": Rule(lamb.LAMB, rate=0.005, power=0.5),
}
batch_sizes = (64, 256, 512, 1024, 2048, 4096)
by_batch = large_batch.by_batch(batch_rules, batch_sizes, seeds=(0, 1, 2))
print("images:", "SYNTHETIC, not CIFAR-10" if load().synthetic else "CIFAR-10")

# %% tags=["nbval-ignore-output"]
publish_figure(
    "accuracy over the batch",
    large_batch_picture.batch_picture(by_batch, findings.headline_of_limits(by_batch)),
    "Test accuracy of a small network after six epochs, over the batch: a line for each rule, mean "
    "of three seeds, with a bar from the worst to the best.",
)

# %% tags=["nbval-ignore-output"]
found, base, most = findings.limits(by_batch), min(batch_sizes), max(batch_sizes)
seen = "; ".join(
    f"{name} up to {found.batches[name]} ({findings.percent(curve[base])} with {base}, "
    f"{findings.percent(curve[most])} with {most})"
    for name, curve in by_batch.items()
)
moved, within = findings.listed(found.moved), findings.listed(found.within)
moved = f"The limit is moved by: {moved}." if moved else "No rule moves the limit."
within = f"Still within it with {most}: {within}." if within else f"With {most}, no rule keeps it."
conclude(
    found.held,
    f"**Answer.** Accuracy has fallen by less than {100 * findings.FALL:.0f} points: {seen}. "
    f"{moved} {within} With {base}, seeds differ by up to {100 * found.apart:.1f} points.",
    f"accuracy has fallen by less than {100 * findings.FALL:.0f} points: {seen}. Seeds differ by up "
    f"to {100 * found.apart:.1f} points with {base}: on other images the linear rule may go further.",
)

# %% [markdown]
# Was it the optimizer, or the rate? With 4096 images, let each of the last three try others: half of
# the square root's, twice and four times as much.
#
# *Predict: what does the best rate do for SGD? Does it come up to LARS and LAMB?*

# %% tags=["nbval-ignore-output"]
last_three = {name: batch_rules[name] for name in ("SGD √", "LARS √", "LAMB √")}
by_rate = large_batch.by_rate(last_three, 4096, factors=(0.5, 1, 2, 4), seeds=(0, 1, 2))
publish_figure(
    "accuracy over the rate",
    large_batch_picture.rate_picture(
        by_rate, findings.headline_of_rates(by_rate, 4096), among=by_batch
    ),
    "Test accuracy after six epochs with a batch of 4096, over the highest learning rate as a "
    "multiple of the rule's: a line for each optimizer, mean of three seeds.",
)

# %% tags=["nbval-ignore-output"]
found, base, most = findings.rates(by_rate, by_batch), min(batch_sizes), max(batch_sizes)
best = ", ".join(f"{findings.percent(seeds)} by {name}" for name, seeds in found.best.items())
apart = 100 * max(map(findings.spread, found.best.values()))
seen = f"{most}, the best of these rates has {best} (seeds differ by up to {apart:.1f} points)"
rate = (
    f"From {base} to {most} the linear rule lost {100 * found.lost:.1f} points, and another rate for "
    f"the same optimizer brings back {100 * found.back:.1f} of them"
)
plain, *_ = found.best
what = f"No other optimizer is clear of the seeds of {plain}: here the rate explains it."
if found.above:
    what = (
        f"All seeds of {findings.listed(found.above)} are above every seed of {plain}, on average by "
        f"up to {100 * found.more:.1f} points: here the rate alone does not explain it."
    )
takes = "not what it takes" if found.back <= findings.FAR else "nearly all that it takes"
conclude(
    found.held,
    f"**Answer.** With {seen}. {rate}. {what} None of these rates brings back the rest.",
    f"with {seen}. {rate}: on these images the rate alone is {takes}.",
)

# %% [markdown]
# One small network proves no rule, and only the rate was tuned. With more of that, Nesterov's momentum
# and Adam matched LARS and LAMB in large batches, on ImageNet and BERT ([Nado et al.
# 2021](https://arxiv.org/abs/2102.06356), abstract). Before you believe that an optimizer is better,
# ask what was tuned for the other one.
#
# To try: set `power` of LARS to 1. How much of its line above was the square root's?

# %% [markdown]
# ## 12. The grid: six factors, every setting *(more)*
#
# Network, model, precision, storage, loader, format: if you plan a cluster, you have to decide on all
# six. A study that changes one and keeps the others has an answer that depends on what it kept. The
# predictor of section 3 can try every setting, 144 of them, on 1 to 256 ranks.
#
# What one rank does alone is measured at small scale or published. First the input: photos, as JPEG
# files or as packed pixels (224×224), loaded image by image by PyTorch's `DataLoader`, or a batch at
# a time by the course's loader. They are also read from the disk, with a cold cache.
#
# *Predict: with 32×32 raw pixels the loader was worth most (module 02). With photos, which is worth
# more: the loader or the format?*

# %% tags=["nbval-ignore-output"]
import tempfile
from pathlib import Path

from hpml.measure.compute import convolution_peak
from hpml.modules.m08_case_studies.lecture import (
    input_rates,
    throughput_grid,
    throughput_grid_findings as grid_findings,
    throughput_grid_picture,
)
from hpml.predict.storage_epoch import SharedStorage

with tempfile.TemporaryDirectory() as images_folder:
    loaded = input_rates.measure(Path(images_folder))
print(*input_rates.lines(loaded), sep="\n")

# %% tags=["nbval-ignore-output"]
found = grid_findings.input_worth(loaded)
files, packed = (loaded.nbytes[name] / 1e3 for name in input_rates.KEPT)
seen = (
    f"one core loads {found.slow:,.0f} images/s one by one from JPEG files, and {found.fast:,.0f} "
    f"by batch from packed pixels; in the mean the format is worth {found.by_format:.1f} times, the "
    f"loader {found.by_loader:.1f} times"
)
conclude(
    found.held,
    f"**Answer.** The format: {seen}. A JPEG must be decoded, which is work for each pixel. The "
    f"price of packed pixels is their size, {packed:.0f} kB in place of {files:.0f} kB.",
    f"{seen}. That can be: this machine's cores and its disk have other work.",
)

# %% [markdown]
# Now computing. One kind of rank is a core of this machine, by its fastest convolution in float32
# and in bfloat16. The other one is a P100, alone in its node: images/s of one node of Piz Daint (CSCS
# 2019, one of the tables of section 3), and for 16 bits its peak rates.
#
# *Predict: how many cores make a P100?*

# %% tags=["nbval-ignore-output"]
import torch

in_float32 = convolution_peak(torch.float32)
gain_here = convolution_peak(torch.bfloat16) / in_float32
a_core = throughput_grid.core(loaded, in_float32, gain_here)
a_p100 = throughput_grid.p100(loaded)

# %% tags=["nbval-ignore-output"]
gpu, core = (rank.images_per_s["resnet50"] for rank in (a_p100, a_core))
seen = (
    f"with ResNet-50 in float32 {a_p100.name} makes {gpu:.0f} images/s, {a_core.name} {core:.1f} "
    f"at most; in 16 bits {a_p100.gain:.1f} and {a_core.gain:.1f} times as many"
)
conclude(
    gpu / core > 5,
    f"**Answer.** Published and measured: {seen}. One GPU does the work of {gpu / core:.0f} cores.",
    f"{seen}: the two are hardly different.",
)

# %% [markdown]
# The rest is assumed: each node has one rank, four cores that load, and a second network for storage.
# The file server is that of module 02: 2,000 opens and 1 GB per second for all nodes.

# %%
for factor, levels in throughput_grid.FACTORS.items():
    print(f"{factor:9} {' | '.join(levels)}")

# %% [markdown]
# **The effect** of a factor is images/s at its best level over images/s at its worst, in the geometric
# mean over all settings of the other five. The model is given; the other five one can choose.
#
# *Predict: which of the five moves the throughput of one P100 most? Of 8? Of 256?*

# %% tags=["nbval-ignore-output"]
grid_p100, grid_core = (throughput_grid.predict_grid(rank) for rank in (a_p100, a_core))
publish_figure(
    "the grid of six factors",
    throughput_grid_picture.effects_picture([grid_p100, grid_core]),
    "What each factor is worth, by the predictor: images/s at its best level over its worst, in the "
    "mean over all other settings. Left each rank is a GPU, right a core of this machine.",
)

# %% tags=["nbval-ignore-output"]
found = grid_findings.largest(grid_p100)
(alone, by), (first, least), _, (second, most) = found.by_ranks.values()
seen = (
    f"{grid_p100.rank.name} as the rank, the factor that moves throughput most is {alone} on one "
    f"rank ({by:.1f} times, best level against worst), {first} on 8 ({least:.0f} times), {second} "
    f"on 256 ({most:.0f} times)"
)
conclude(
    found.held,
    f"**Answer.** With {seen}. A rank of a ring sends twice its gradients, whatever the number of "
    "ranks; what one file server gives is shared out among all. The loader brings "
    f"{found.loader - 1:.0%} at most, with {throughput_grid.CORES} cores for each rank.",
    f"with {seen}.",
)

# %% [markdown]
# *Predict: do these answers also hold where each rank is a core of your machine?*

# %% tags=["nbval-ignore-output"]
name, by = grid_core.largest(8)
near, far = (
    f"{grid_core.effect(factor, ranks):.1f} times on {ranks}, not "
    f"{grid_p100.effect(factor, ranks):.0f}"
    for factor, ranks in (("network", 8), ("storage", 256))
)
seen = (
    f"with {grid_core.rank.name} as the rank the network is worth {near}, and storage {far}; on 8 "
    f"ranks {name} is worth most, {by:.1f} times"
)
conclude(
    grid_findings.hides(grid_core, grid_p100),
    f"**Answer.** No: {seen}. A slow rank hides everything around it, so do not carry what was "
    "found out on slow processors over to fast ones.",
    f"{seen}.",
)

# %% [markdown]
# A mean over settings hides that factors depend on each other.
#
# *Predict: 256 P100, and 100 Gbit/s in place of 1. What is that worth if all of them read from one file
# server?*

# %% tags=["nbval-ignore-output"]
found = grid_findings.network_within_storage(grid_p100, ranks=256)
one, other, effects = grid_p100.interaction(256)
most = "no other pair of factors depends on each other as much"
if {one, other} != {"network", "storage"}:
    levels = ", ".join(f"{level} {effect:.1f} times" for level, effect in effects.items())
    most = f"most depends what the {one} is worth on the {other}: {levels}"
seen = (
    f"256 ranks 100 Gbit/s in place of 1 Gbit/s is worth {found.disk:.0f} times with "
    f"{throughput_grid.DISK}, and {found.server:.1f} times with {throughput_grid.SHARED}"
)
conclude(
    found.held,
    f"**Answer.** On {seen}: if you buy the network and leave the server as it is, you have bought "
    f"little. Of those that one can choose, {most}.",
    f"on {seen}.",
)

# %% [markdown]
# The file server was assumed. Now ten times as many opens and bytes per second, as the parallel file
# system of module 02.
#
# *Predict: what moves the throughput of 256 P100 most then?*

# %% tags=["nbval-ignore-output"]
from dataclasses import replace

parallel_system = SharedStorage(opens_per_second=20_000, latency=1e-3, bandwidth=10e9)
grid_parallel = throughput_grid.predict_grid(replace(a_p100, server=parallel_system))

# %% tags=["nbval-ignore-output"]
found = grid_findings.faster_server(grid_p100, grid_parallel, ranks=256)
seen = (
    f"on 256 ranks the {found.name} moves throughput most, {found.most:.0f} times; storage "
    f"{found.then:.1f} times, where it was {found.before:.1f}"
)
conclude(
    found.held,
    f"**Answer.** Then {seen}. Which factor matters most on many ranks is decided by the server, "
    "so look up its two numbers before you choose a network.",
    f"{seen}.",
)

# %% [markdown]
# Is the grid like what others found? Three published pairs of tables, in which one factor differs:
#
# *Predict: which of the three was worth most on 32 GPUs: network, precision or loader?*

# %% tags=["nbval-ignore-output"]
pairs = grid_findings.published_pairs()
listed = "; ".join(f"{what}: {ratio:.1f} times" for what, ratio in pairs.items())
conclude(
    max(pairs, key=pairs.get).startswith("loader"),
    f"**Answer.** {grid_findings.RANKS} GPUs with ResNet-50: {listed}. So by name it is not: the "
    "loader was worth most there, and least in the grid. A loader there also decodes ImageNet's own "
    "files. In the grid that work is a part of the format, which is worth "
    f"{grid_p100.effect('format', 1):.1f} times on one rank with {throughput_grid.CORES} cores.",
    f"{listed}.",
)

# %% [markdown]
# Last, the model. It is not chosen to suit the cluster. Whether it is distributed is a choice.
#
# *Predict: 64 images on each P100, 1 Gbit/s. For which of AlexNet, VGG-16, ResNet-50 and Inception V3
# are eight ranks slower than one?*

# %%
eight_against_one = throughput_grid.against_one(a_p100, "1gbit", ranks=8)
for one in eight_against_one:
    print(f"{one.model:12} {one.nbytes / 1e6:4.0f} MB, {one.flop_per_byte:4.0f} FLOP per byte")

# %%
few, many = (one.flop_per_byte for one in (eight_against_one[0], eight_against_one[-1]))
slower = [one.model for one in eight_against_one if one.speed_up < 1]
listed = ", ".join(f"{one.model} {one.speed_up:.2f}" for one in eight_against_one)
seen = f"8 ranks on 1 Gbit/s are worth so many single ranks: {listed}"
conclude(
    grid_findings.in_order(eight_against_one),
    f"**Answer.** {seen}. For {' and '.join(slower)} one rank is faster than 8. The order is that "
    f"of the FLOP for each byte of gradients ({few:.0f} to {many:.0f} for an image), not that of "
    "the bytes. A model is small if it computes little for what it sends. It should not be "
    "distributed on such a network, or each rank needs many more images (section 2).",
    f"{seen}; slower than one rank: {', '.join(slower) or 'none'}.",
)
small, large = (grid_findings.on_piz_daint(name) for name in ("alexnet", "resnet50"))
most = max(small)
predicted = {one.model: one.speed_up for one in throughput_grid.against_one(a_p100, "100gbit", 2)}
seen = (
    "on Piz Daint (CSCS 2019, Cray Aries, a P100 and 64 images in each node) AlexNet makes "
    f"{small[2]:.2f} times the images/s of one GPU on 2, and {small[most]:.1f} times on {most}; "
    f"ResNet-50 {large[2]:.2f} and {large[most]:.1f} times"
)
conclude(
    small[2] < 1 < large[2],
    f"Published: {seen}. AlexNet on two GPUs is slower than on one, also on the network of a "
    f"supercomputer. For 100 Gbit/s the predictor has {predicted['alexnet']:.2f} times on two: the "
    "nominal rate of a network is the best case.",
    f"{seen}.",
)

# %% [markdown]
# **Small models should not be distributed**, and this is what small means. Microsoft's guide for
# clusters in its cloud recommends much the same: distribute large models, try one fast GPU before many
# slow ones, take InfiniBand, keep the data on each node's disk, in packed formats
# ([Microsoft 2019, Distributed training of deep learning models on Azure](https://learn.microsoft.com/en-us/azure/architecture/reference-architectures/ai/training-deep-learning),
# the sections on performance, scalability, storage and data format).

# %% [markdown]
# ## What to take home
#
# 1. Below some size an all-reduce costs messages, above it bytes: α and β, from one table (section 1).
# 2. The batch on each rank decides whether ranks pay: below *b* one rank is the fastest (2).
# 3. Images/s of one rank, the order of the buckets and two fitted constants predict most curves. The
#    interval, and the tables that it misses, belong to the answer (3).
# 4. Overlap is computed, not assumed: the last bucket is never hidden (3).
# 5. ImageNet in one hour needed 13 Gbit/s for each server. The batch was the difficult part (4).
#
# **Now:** `exercises/08_case_studies.ipynb`, first `predict_scaling`.
#
# ### Where to read on *(more)*
#
# - Goyal et al. 2017, *Accurate, large minibatch SGD: training ImageNet in 1 hour*:
#   https://arxiv.org/abs/1706.02677
# - Cho et al. 2017, *PowerAI DDL*: https://arxiv.org/abs/1708.02188; Awan et al. 2018, *Optimized
#   broadcast for deep learning workloads on dense-GPU InfiniBand clusters: MPI or NCCL?*:
#   https://arxiv.org/abs/1707.09414
# - Narayanan et al. 2021, *Efficient large-scale language model training on GPU clusters*:
#   https://arxiv.org/abs/2104.04473; Grattafiori et al. 2024, *The Llama 3 herd of models*, section
#   3.3: https://arxiv.org/abs/2407.21783
# - Young 1974, *A first order approximation to the optimum checkpoint interval*, CACM 17 (9); Daly
#   2006, *A higher order estimate of the optimum checkpoint interval for restart dumps*, Future
#   Generation Computer Systems 22 (3)

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/08_case_studies.ipynb) of this module: first `predict_scaling`; for the evening `fit_alpha_beta`, `find_the_knee`, `choose_layout`.
