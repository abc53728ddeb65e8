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
# # 05 Horovod, and TensorFlow on the same problem
#
# Horovod turns a training script for one process into one for many, with a few lines, in PyTorch
# and in Keras alike. Which lines are they, what happens behind them, and what does it cost on a slow
# network? Then the same problem in TensorFlow, with its own means: an input pipeline, and a strategy
# for several workers.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.

# %%
# %load_ext hpml
# %matplotlib inline
import shutil
import tempfile
from pathlib import Path

import torch

from hpml.data import load
from hpml.paths import CHECKOUT, home
from hpml.network.link import parse_rate
from hpml.publish import publish, publish_figure, skip
from hpml.predict.collectives import all_reduce_bytes, seconds
from hpml.errors import UserError
from hpml.ranks import launch
from hpml.trace import horovod_timeline
from hpml.trace import horovod_drawing as draw
from hpml.frameworks.run import changes, lines_of_code, run, told

DATA = "SYNTHETIC images, not CIFAR-10" if load().synthetic else "CIFAR-10"
FOLDER = Path(tempfile.mkdtemp(prefix="hpml-05-"))
TIMELINES = home() / "timelines"
TIMELINES.mkdir(exist_ok=True)

# %% [markdown]
# ## 1. From one process to many
#
# `hpml/frameworks/serial_torch.py` trains a small network on CIFAR-10 with one process, in
# some twenty lines; `horovod_torch.py` beside it does the same with many. What follows is the
# difference between the two files.
#
# *Predict: what does a script have to do differently when several processes train one network? List
# what you can think of, then compare.*

# %%
for_torch = changes("serial_torch", "horovod_torch")
print("\n".join(for_torch))
print(f"\n{lines_of_code(for_torch)} lines are new or changed")

# %% [markdown]
# | line | without it |
# |---|---|
# | `hvd.init()` | nobody knows rank and size, or whom to talk to |
# | `DistributedSampler`, `set_epoch` | every rank trains on the same images, in the same order each time |
# | learning rate × `hvd.size()` | fewer steps per epoch, each as short as before (module 06, section 7) |
# | `DistributedOptimizer` | each rank trains a network of its own: this is what averages the gradients |
# | `broadcast_parameters` | averaged gradients on different starting weights |
# | `broadcast_optimizer_state` | after a resume, momentum on rank 0 only |
# | `if hvd.rank() == 0` | every rank prints, and writes over the others' checkpoint |
#
# Only the first gives an error when it is left out. With any other missing the script runs, the loss
# goes down, and the result is worse than it could be. (`hvd_torch` is your exercise, and it looks for each of them.)
#
# Now Keras, whose loop is hidden in `fit`. *Predict: where can Horovod get in there, and what besides
# the gradients has to be averaged?*

# %%
for_keras = changes("serial_keras", "horovod_keras")
print("\n".join(for_keras))
print(f"\n{lines_of_code(for_keras)} lines are new or changed")

# %% [markdown]
# The optimizer is wrapped as in PyTorch. What has to happen at a certain moment of the training is a
# *callback*: the broadcast after the first batch, when all variables exist, and the average of the
# metrics at the end of each epoch. Without that one, each rank reports, and acts upon, the accuracy
# of its own share. (`hvd_keras` is your exercise.)
#
# Horovod's last version, 0.28.1, is from 2023 and was made for Keras 2. TensorFlow has come with
# Keras 3 since its version 2.16. *Predict: does the script above run with it?*

# %%
try:
    run("horovod_keras", ranks=1, images=500, epochs=1, environment={"TF_USE_LEGACY_KERAS": "0"})
except UserError as error:
    print(error)

# %% [markdown]
# It does not. Keras 2 lives on in a package of its own, `tf_keras`, and with `TF_USE_LEGACY_KERAS=1`
# set before TensorFlow is imported, `tf.keras` means that one. The ranks of this notebook have it
# set; in a job script it is a line of yours. (`hvd.DistributedGradientTape`, for loops that you write
# yourself, does not care.)

# %% [markdown]
# ## 2. Tensors have names
#
# `torch.distributed` goes by the order of the calls: what a rank calls first is averaged with what
# the others call first. Horovod goes by names. A rank submits a tensor, and a background thread asks
# the other ranks' threads, over and over, which tensors *all* of them have: this is the negotiation.
#
# *Predict: rank 0 submits `a`, then `b`; rank 1 does it the other way round. What comes out?*

# %%
# %%ranks 2 --horovod
import horovod.torch as hvd

values = {"a": torch.tensor([1.0 + rank]), "b": torch.tensor([10.0 + rank])}
order = ("a", "b") if rank == 0 else ("b", "a")
handles = {name: hvd.allreduce_async(values[name], name=name) for name in order}
print({name: hvd.synchronize(handles[name]).item() for name in ("a", "b")})

# %% [markdown]
# The right means. That is worth a thread of its own: in TensorFlow, operations run in whatever order
# they become ready, and it is another one on each rank.
#
# *Predict: rank 1 has a layer more than rank 0, so it submits a gradient that rank 0 never will. What
# happens?*


# %%
def one_more_on_rank_1():
    import horovod.torch as hvd

    hvd.allreduce(torch.ones(3), name="gradient of layer 1")
    if hvd.rank() == 1:
        hvd.allreduce(torch.ones(3), name="gradient of layer 2")
    hvd.allreduce(torch.ones(3), name="loss")


evidence = launch(one_more_on_rank_1, 2, flavour="horovod", timeout=30)
print(evidence.diagnosis.sentence)

# %% [markdown]
# Nothing happens, for ever. Under `horovodrun` you would see a warning after a minute, "One or more
# tensors were submitted to be reduced, gathered or broadcasted by subset of ranks", with the names of
# the tensors and of the ranks that are missing: the first thing to look for in the log of a job that
# stands still.

# %% [markdown]
# ## 3. Many small tensors
#
# A network has hundreds of small gradients. Here are 200 of them, of 4 kB each, on two ranks behind
# links of a given rate, and one tensor with the same number of bytes. `HOROVOD_FUSION_THRESHOLD` is
# how many bytes Horovod gathers into one message; 0 switches that off.


# %%
def average(count, length, steps=6):
    """On a rank: average `count` tensors of `length` floats, several times; seconds of each step."""
    import time

    import horovod.torch as hvd

    gradients = [torch.ones(length) for _ in range(count)]
    taken = []
    for _ in range(steps):
        hvd.barrier()
        began = time.perf_counter()
        handles = [hvd.allreduce_async_(g, name=f"gradient {n}") for n, g in enumerate(gradients)]
        for handle in handles:
            hvd.synchronize(handle)
        taken.append(time.perf_counter() - began)
    hvd.barrier()
    hvd.shutdown()  # what it writes down is written to the end
    return taken[1:]  # in the first step Horovod learns the names


ON, OFF = {}, {"HOROVOD_FUSION_THRESHOLD": "0"}
CASES = {
    "200 small, one by one": (200, 1_000, OFF),
    "200 small, fused": (200, 1_000, ON),
    "one large": (1, 200_000, ON),
}


# %% [markdown]
# *Predict: how many collectives does a step take in each of the three cases? How many times longer
# does the first take than the third, over 1 Gbit/s and over 100 Mbit/s?*


# %% tags=["nbval-ignore-output"]
def step_of(case, link):
    """Milliseconds of the quickest step, its collectives, MB that a rank sent in all, the timeline."""
    count, length, settings = CASES[case]
    file = TIMELINES / f"{case} {link}.json".replace(" ", "_")
    evidence = launch(
        lambda: average(count, length),
        2,
        flavour="horovod",
        link=link,
        environment=lambda rank: settings | {"HOROVOD_TIMELINE": str(file)},
    )
    if evidence.no_link:
        skip("links of a given rate", evidence.no_link)
    timeline = horovod_timeline.read(file)
    steps = [max(of_ranks) for of_ranks in zip(*evidence.values, strict=True)]
    quickest = timeline.round(steps.index(min(steps)) + 1)  # the first is not among them
    traffic = evidence.ranks[0].traffic
    return {
        "ms": 1e3 * min(steps),
        "collectives": len(horovod_timeline.collectives(quickest)),
        "MB sent": traffic.sent_bytes / 1e6 if traffic else float("nan"),
        "timeline": quickest,
    }


measured = {link: {case: step_of(case, link) for case in CASES} for link in ("1gbit", "100mbit")}

# %% tags=["nbval-ignore-output"]
for link, cases in measured.items():
    least = 1e3 * seconds(all_reduce_bytes(2, 800_000), parse_rate(link))
    print(f"{link}: 0.8 MB take {least:.1f} ms at the least")
    for case, one in cases.items():
        ratio = one["ms"] / cases["one large"]["ms"]
        print(
            f"  {case:22} {one['collectives']:4} collectives {one['ms']:7.1f} ms "
            f"({ratio:.1f} × one large), {one['MB sent']:.1f} MB sent in six steps"
        )

# %% tags=["nbval-ignore-output"]
worth = {
    link: cases["200 small, one by one"]["ms"] / cases["200 small, fused"]["ms"]
    for link, cases in measured.items()
}
publish(
    "what tensor fusion is worth",
    worth,
    unit="×",
    caption="200 tensors of 4 kB on two ranks: seconds of a step one by one, over seconds fused.",
)

# %% [markdown]
# The bytes are the same. What fusion saves is everything that comes once for each message: setting it
# up, waiting for the other rank to be there as well, headers and acknowledgements. The faster the
# link, the larger the share of that, so it is the fast network that needs fusion most; and on a real
# network each message also has the latency, which cannot be emulated here.
#
# Fused gradients are not always one message. Horovod looks every `HOROVOD_CYCLE_TIME` (1 ms) for what
# all ranks have, and fuses what is there by then. `./hpml bench fusion` measures all of this with
# care.

# %% [markdown]
# ### The timeline
#
# `HOROVOD_TIMELINE=file` has rank 0 write down what became of each tensor. The pale part of a row is
# the negotiation, from the first rank that asks for the tensor to the last. *Predict: what do the
# 200 rows look like, one by one and fused?*

# %% tags=["nbval-ignore-output"]
one_by_one = measured["1gbit"]["200 small, one by one"]["timeline"]
draw.timeline(one_by_one, title="One by one: 200 messages, each waits for those before it")

# %% tags=["nbval-ignore-output"]
fused = measured["1gbit"]["200 small, fused"]["timeline"]
messages = len(horovod_timeline.collectives(fused))
publish_figure(
    "tensor fusion in Horovod's timeline",
    draw.timeline(fused, title=f"Fused: 200 tensors travel in {messages} messages"),
    "200 tensors of 4 kB on two ranks behind links of 1 Gbit/s; a row for each tensor.",
)

# %% [markdown]
# A row of its own for each message shows what went together, and what the copies into the fusion
# buffer and out of it take.

# %% tags=["nbval-ignore-output"]
draw.timeline(fused, per="collective", title="The same step, a row for each message")

# %% tags=["nbval-ignore-output"]
print("In HPML_HOME/timelines (.hpml/timelines), for chrome://tracing or https://ui.perfetto.dev:")
print("\n".join(path.name for path in sorted(TIMELINES.glob("*.json"))))

# %% [markdown]
# A job that is killed leaves a file that ends in the middle of a line, which those viewers may
# decline. *Predict: is what came before lost?*

# %% tags=["nbval-ignore-output"]
content = (TIMELINES / "200_small,_fused_1gbit.json").read_bytes()
print("whole:", horovod_timeline.parse(content).describe())
cut = horovod_timeline.parse(content[: len(content) // 2 + 7])
print("  cut:", cut.describe())

# %% [markdown]
# It is not. (`hvd_fusion` is your exercise: read such a file yourself.)

# %% [markdown]
# ## 4. Half the bytes
#
# `compression=hvd.Compression.fp16` turns each gradient into 16-bit numbers before it is sent, and
# back after. *Predict: what does the kernel count then? And what does it do to the loss?*


# %%
def train(compression):
    """On a rank: eight steps of a small network; the losses, averaged over ranks."""
    import horovod.torch as hvd

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 10),
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        model.named_parameters(),
        compression=getattr(hvd.Compression, compression),
    )
    torch.manual_seed(hvd.rank())
    images, labels = torch.randn(256, 64), torch.randint(0, 10, (256,))
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach(), name="loss").item())
    return losses


# %% tags=["nbval-ignore-output"]
sent, loss = {}, {}
for compression in ("none", "fp16"):
    evidence = launch(lambda kind=compression: train(kind), 2, flavour="horovod", link="100mbit")
    loss[compression] = evidence.values[0]
    if evidence.ranks[0].traffic:
        sent[compression] = evidence.ranks[0].traffic.sent_bytes / 1e6
for compression, megabytes in sent.items():
    print(f"{compression:5} {megabytes:5.2f} MB sent by rank 0", end=", ")
    print(f"loss {loss[compression][0]:.4f} to {loss[compression][-1]:.4f}")
if sent:
    print(f"fp16 sends {sent['fp16'] / sent['none']:.2f} of the bytes")

# %% [markdown]
# A little more than half, because names and headers are not compressed. The loss hardly notices:
# gradients are noisy by nature. What 16 bits do not have is range: a gradient beyond 65,504 becomes
# infinite, and one below 6·10⁻⁸ zero, which is why sums are better made in 32 bits. The order matters,
# too: compressed after the sum, nothing would be saved. (`hvd_compression` is your exercise.)

# %% [markdown]
# ## 5. Gloo or MPI?
#
# Horovod sends by one of several libraries: NCCL between GPUs; on processors MPI, where Horovod was
# built with it, or Gloo, always. `horovodrun --gloo` and `mpirun` start the same script.
#
# *Predict: which is quicker within one machine, for few bytes and for many?*

# %% tags=["nbval-ignore-output"]
import horovod.torch as hvd

if not (hvd.mpi_built() and shutil.which("mpirun")):
    why = "there is no mpirun" if hvd.mpi_built() else "Horovod was built without MPI"
    skip("MPI against Gloo", f"{why} here")
else:
    took = {
        library: told("horovod_all_reduce", 2, 120, controller=library)["seconds"]
        for library in ("gloo", "mpi")
    }
    for nbytes, gloo in took["gloo"].items():
        mpi = took["mpi"][nbytes]
        print(f"{int(nbytes):>9,} bytes: gloo {1e3 * gloo:7.3f} ms, mpi {1e3 * mpi:7.3f} ms")

# %% [markdown]
# For few bytes, much of this is waiting for Horovod's next cycle, whatever the library. For many bytes it is how a library moves them: OpenMPI through memory that the ranks
# share, Gloo through sockets. Over a network both use what the network has; MPI knows InfiniBand's
# own ways. On a cluster, take what its documentation says: an MPI that was built for its network, or
# NCCL.

# %% [markdown]
# ## 6. Two levels
#
# A node's ranks are close to each other, and the nodes are far apart: `--link
# nodes=2x2,intra=10gbit,inter=1gbit`. A ring over all four ranks takes no notice of that. The
# hierarchical all-reduce does: first add up within each node, then one rank of each node with the
# others', then hand the result out within the node.
#
# *Predict: 4 MB on two nodes of two ranks. How many MB leave each node in a ring over all four? And in
# the hierarchical way?*

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --link nodes=2x2,intra=10gbit,inter=1gbit --evidence ring --out flat
import time

import torch.distributed as dist

tensor = torch.ones(1_000_000)
dist.barrier()
began = time.perf_counter()
dist.all_reduce(tensor)
flat = time.perf_counter() - began

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --link nodes=2x2,intra=10gbit,inter=1gbit --evidence levels --out hierarchical
import time

import torch.distributed as dist

groups = {ranks: dist.new_group(ranks) for ranks in ((0, 1), (2, 3), (0, 2))}
node, leaders = groups[(0, 1) if rank < 2 else (2, 3)], groups[(0, 2)]
first = rank - rank % 2
tensor = torch.ones(1_000_000)
dist.barrier()
began = time.perf_counter()
dist.reduce(tensor, dst=first, group=node)
if rank == first:
    dist.all_reduce(tensor, group=leaders)
dist.broadcast(tensor, src=first, group=node)
hierarchical = time.perf_counter() - began
assert tensor.eq(4).all()

# %% tags=["nbval-ignore-output"]
for name, evidence, took in (("ring", ring, flat), ("hierarchical", levels, hierarchical)):
    if evidence.uplinks:
        up = max(uplink.sent_bytes for uplink in evidence.uplinks) / 1e6
        print(f"{name:13} {up:.1f} MB leave a node, {max(took):.3f} s")

# %% [markdown]
# A ring has each of four ranks send 1.5 times its bytes, and for one rank of each node the
# neighbour is on the other one. Between two nodes alone once is enough. With two nodes of eight
# GPUs the difference is between 1.9 times and once over the slowest part of the way.
#
# Fewer bytes over the slow link, and yet it need not be quicker: this simple form (add up in the
# node, one leader for each node, hand out) leaves all but one rank of a node idle meanwhile, and
# its three steps follow each other. Horovod's own, `HOROVOD_HIERARCHICAL_ALLREDUCE=1`, keeps all of
# them busy: reduce-scatter within the node by NCCL, then every local rank all-reduces its part with
# its counterparts on the other nodes by MPI, then all-gather within the node. That is the
# *hierarchical* of module 01. The Gloo of this machine does not heed the setting. NCCL itself finds
# such paths without being asked.

# %% [markdown]
# ## 7. Let it find out by itself
#
# How many bytes to fuse, how long to wait for more, whether to remember what was negotiated: the best
# depends on network and model. With `HOROVOD_AUTOTUNE=1` Horovod tries settings out during the
# first steps, guided by a Gaussian process (Bayesian optimisation), and keeps the best.

# %% tags=["nbval-ignore-output"]
log = FOLDER / "autotune.csv"
evidence = launch(
    lambda: average(50, 4_000, steps=460),
    2,
    flavour="horovod",
    link="1gbit",
    environment=lambda rank: {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(log)},
    timeout=300,
)
for line in log.read_text().splitlines():
    print("{:>14} {:>24} {:>8}".format(*line.split(",")[-3:]))

# %% [markdown]
# A line for every fifty steps, after 150 that warm up. The fusion threshold is in MB, and the score,
# bytes per microsecond, says how well the settings did. The first four are always tried; then the
# process proposes what promises most. They are the knobs that you can turn yourself: for a job of days
# it is worth a look whether the defaults are far from the best.
#
# One more knob is the sum itself. The mean of gradients is what a large batch means, and it asks for
# a scaled learning rate (module 06, section 7). *Adasum*, `op=hvd.Adasum`, adds gradients where they
# are orthogonal, since each says something new, and averages them where they are parallel:
#
# $$\mathrm{Adasum}(a, b) = \left(1 - \frac{a \cdot b}{2\,\|a\|^2}\right) a + \left(1 - \frac{a \cdot
# b}{2\,\|b\|^2}\right) b$$
#
# so that the learning rate can stay (Maleki et al. 2020, arXiv:2006.02924). On processors it needs
# a Horovod with MPI. With NCCL, Horovod averages within a node first and uses Adasum between nodes:
# there the rate is that of one node's GPUs.


# %%
def adasum(a, b):
    along = a @ b / 2
    return (1 - along / (a @ a)) * a + (1 - along / (b @ b)) * b


x, y = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
print(f"parallel: {adasum(x, x).tolist()}, orthogonal: {adasum(x, y).tolist()}")

# %% [markdown]
# ## 8. A worker is lost
#
# `elastic_torch.py` trains the same network so that workers may come and go: what has to survive is
# in a *state*, which is committed now and then.

# %%
from hpml.frameworks.run import source

print("@hvd" + source("elastic_torch").partition("@hvd")[2])

# %% [markdown]
# `horovodrun` asks a script of yours which hosts there are. Here it says `localhost` and `127.0.0.1`,
# two names of this machine, with a worker on each. After twenty steps the second one is killed.
#
# *Predict: what happens to the other? From which step does it go on, with how many workers?*

# %% tags=["nbval-ignore-output"]
import time

from hpml.frameworks import elastic_horovodrun

short = {"HPML_EPOCHS": "8", "HPML_IMAGES": "1000"}
with elastic_horovodrun.job("elastic_torch", environment=short) as job:
    job.wait_for("step 20: committed", limit=90)
    began = time.monotonic()
    lost = job.lose("127.0.0.1")
    code = job.wait(limit=120)
    said = job.said
print(
    f"lost {lost} worker; horovodrun ended with exit code {code} {time.monotonic() - began:.0f} s later"
)
print("\n".join(said))

# %% [markdown]
# The worker that was left found its `allreduce` broken, went back to the last commit, waited for
# `horovodrun` to say who is there now, and called `train` again, alone. Unlike in `torchrun` (module
# 06, section 9) its process went on: no import, no checkpoint on disk. What it costs: whatever came
# after the last commit, and memory for a copy of the state. `horovodrun` keeps off the host that
# failed, and asks its script for others; those that come get the state from rank 0.

# %% [markdown]
# ## 9. TensorFlow on the same problem: from files to batches
#
# TensorFlow's format for images is the TFRecord: many records in one file, and several files, so that
# they can be read at the same time. `hpml/data/tfrecord.py` writes CIFAR-10 that way.

# %% tags=["nbval-ignore-output"]
from hpml.data import tfrecord
from hpml.data.batches import MEAN, STD

tf = tfrecord.tensorflow(remarks=False)
train_images, IMAGES = load().train, 5_000
files = tfrecord.write(train_images, FOLDER / "train", shards=8, count=IMAGES)
print(f"{len(files)} files of {files[0].stat().st_size / 1e6:.1f} MB, {DATA}")

# %% [markdown]
# `tf.data` describes how a batch comes to be, one step after the other. *Predict: which of these makes
# the most difference, if a GPU takes 10 ms for each batch of 250 and your two cores do the rest?*
#
# - **interleave**: read from four files at a time
# - **parallel map**: decode and augment several images at a time
# - **cache**: keep what the first epoch has decoded
# - **prefetch**: make the next batch while the GPU works on this one
#
# tf.data does some of that unasked: it puts a prefetch at the end, and maps in parallel where the
# order of the results allows. That is switched off here, so that each step shows what it does.


# %%
def augment(image, label):
    """uint8 [32, 32, 3] to float32: mirrored by a coin, shifted by up to two pixels, normalised."""
    image = tf.image.random_flip_left_right(image)
    image = tf.pad(image, [[2, 2], [2, 2], [0, 0]], "REFLECT")
    image = tf.image.random_crop(image, tfrecord.SHAPE)
    return (tf.cast(image, tf.float32) / 255 - MEAN) / STD, label


names = [str(file) for file in files]
AUTO = tf.data.AUTOTUNE
one = tf.data.TFRecordDataset(names)
many = tf.data.Dataset.from_tensor_slices(names).interleave(
    tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=AUTO
)
decoded = many.map(tfrecord.parse, num_parallel_calls=AUTO)
pipelines = {
    "one after the other": one.map(tfrecord.parse).map(augment).batch(250),
    "interleave": many.map(tfrecord.parse).map(augment).batch(250),
    "… parallel map": decoded.map(augment, num_parallel_calls=AUTO).batch(250),
    "… cache": decoded.cache().map(augment, num_parallel_calls=AUTO).batch(250),
    "… prefetch": decoded.cache().map(augment, num_parallel_calls=AUTO).batch(250).prefetch(AUTO),
}
as_written = tf.data.Options()
as_written.experimental_optimization.apply_default_optimizations = False
as_written.experimental_optimization.inject_prefetch = False
pipelines = {name: pipeline.with_options(as_written) for name, pipeline in pipelines.items()}

# %% [markdown]
# Beside it PyTorch: this course's loader, which maps the files into memory and augments whole batches
# at once, and torch's `DataLoader` with two processes, which make batches ahead.

# %%
import hpml.data


class Loader:
    """The images in a new order each time, augmented and normalised batch by batch."""

    def __iter__(self):
        order = torch.randperm(IMAGES)
        for images, labels in hpml.data.batches(train_images, order, batch_size=250):
            yield hpml.data.normalize(hpml.data.augment(images), channels_last=True), labels


class Image(torch.utils.data.Dataset):
    """The same one by one, which is what a DataLoader's processes collect batches from."""

    def __len__(self):
        return IMAGES

    def __getitem__(self, number):
        image = torch.from_numpy(train_images.images[[number]])
        return hpml.data.normalize(hpml.data.augment(image))[0], train_images.labels[number]


# %% tags=["nbval-ignore-output"]
from hpml.measure.loading import images_per_second
from hpml.train.draw import ORANGE, SKY, speeds

GPU = 0.01  # seconds for a batch
loaders = {f"tf.data, {name}": pipeline for name, pipeline in pipelines.items()}
loaders["PyTorch, this course's loader"] = Loader()
loaders["PyTorch, DataLoader, 2 processes"] = torch.utils.data.DataLoader(
    Image(), batch_size=250, shuffle=True, num_workers=2
)
rounds = [  # by turns, so that what else the machine does is the same for all
    {name: images_per_second(batches, GPU, epochs=1) for name, batches in loaders.items()}
    for _ in range(3)
]
rates = {name: max(one[name] for one in rounds) for name in loaders}
gain = rates["tf.data, … prefetch"] / rates["tf.data, one after the other"]
title = f"With all four steps tf.data is {gain:.1f} times as fast ({DATA})"
publish_figure(
    "loading for a GPU of 25,000 images/s",
    speeds(rates, ideal=250 / GPU, title=title, colours=[SKY] * 5 + [ORANGE] * 2),
    f"{IMAGES:,} augmented images in batches of 250, for a device that is busy for 10 ms with each; "
    "dashed: what it could take.",
)

# %% [markdown]
# Without prefetch, a step takes as long as making the batch *and* computing on it; with it, as the
# longer of the two. Two cores limit the rest: more than two images at a time cannot be augmented. And
# one image at a time is the expensive way, whoever does it: this course's loader does the same to a
# whole batch with a few operations. The order of the steps matters as well: a cache after the
# augmentation would hand out the same shifts in each epoch.

# %% [markdown]
# ## 10. MultiWorkerMirroredStrategy
#
# TensorFlow's own way to many processes. Each worker finds in `TF_CONFIG` all workers' addresses and
# its own number; variables made under the strategy's scope are mirrored, and gradients are averaged
# by a ring over gRPC. Compared with Horovod, what is different?

# %%
by_strategy = changes("serial_keras", "multi_worker_keras")
print("\n".join(by_strategy))
print(f"\n{lines_of_code(by_strategy)} lines are new or changed")

# %% [markdown]
# The batch is that of all workers together, and `fit` shares it out: the images, and the metrics too.
# Here is the strategy at its smallest, on two ranks with links of 1 Gbit/s: one variable, one average.
#
# *Predict: 4 MB of gradients on two workers, five times. How much does each send?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --no-group --link 1gbit --evidence grpc --timeout 120
import json
import os

from hpml.data import tfrecord

link = os.environ.get("MASTER_ADDR", "127.0.0.1")
hosts = ["10.77.0.1", "10.77.0.2"] if link == "10.77.0.1" else ["127.0.0.1"] * 2
first = int(os.environ["MASTER_PORT"])
config = {"cluster": {"worker": [f"{host}:{first + n}" for n, host in enumerate(hosts)]}}
os.environ["TF_CONFIG"] = json.dumps(config | {"task": {"type": "worker", "index": rank}})

tensorflow = tfrecord.tensorflow(remarks=False)
ring = tensorflow.distribute.experimental.CommunicationOptions(
    implementation=tensorflow.distribute.experimental.CommunicationImplementation.RING
)
strategy = tensorflow.distribute.MultiWorkerMirroredStrategy(communication_options=ring)


@tensorflow.function
def step(number):
    def of_one_worker():
        gradient = tensorflow.fill([1_000_000], tensorflow.cast(rank + number, tensorflow.float32))
        context = tensorflow.distribute.get_replica_context()
        return context.all_reduce(tensorflow.distribute.ReduceOp.MEAN, gradient)[0]

    return strategy.run(of_one_worker)


print([step(tensorflow.constant(number)).numpy().item() for number in range(5)])

# %% tags=["nbval-ignore-output"]
if grpc.ranks[0].traffic:
    least = 5 * all_reduce_bytes(2, 4_000_000) / 1e6
    print(
        f"rank 0 sent {grpc.ranks[0].traffic.sent_bytes / 1e6:.1f} MB; at the least {least:.0f} MB"
    )

# %% [markdown]
# As much as any all-reduce must, and gRPC's headers. The whole script with two workers is in module
# 06, section 11, beside Horovod and DDP.

# %% [markdown]
# ## 11. How many threads?
#
# `intra_op` is how many threads share one operation, `inter_op` how many operations run at a time,
# `OMP_NUM_THREADS` what libraries that use OpenMP take. Which of them a program heeds depends on how
# it was built. *Predict: with two cores, which of these changes anything: for Keras, for PyTorch?*

# %% tags=["nbval-ignore-output"]
KERAS = {
    "intra_op 1, inter_op 1": {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"},
    "intra_op 2, inter_op 1": {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "1"},
    "… OMP_NUM_THREADS 2": {
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "OMP_NUM_THREADS": "2",
    },
}
TORCH = {
    "OMP_NUM_THREADS 1": {"OMP_NUM_THREADS": "1"},
    "OMP_NUM_THREADS 2": {"OMP_NUM_THREADS": "2"},
    "OMP_NUM_THREADS 2, KMP_BLOCKTIME 0": {"OMP_NUM_THREADS": "2", "KMP_BLOCKTIME": "0"},
}
for script, settings in (("serial_keras", KERAS), ("serial_torch", TORCH)):
    for name, environment in settings.items():
        outcome = run(script, images=2_500, epochs=1, environment=environment)
        print(f"{script:13} {name:36} {outcome.images_per_second:6.0f} images/s")

# %% [markdown]
# Which OpenMP is there, if any, the process itself says.

# %% tags=["nbval-ignore-output"]
import re

mapped = Path("/proc/self/maps")
names = (
    set(re.findall(r"/(lib[gi]?omp[^/\s]*)$", mapped.read_text(), re.M)) if mapped.exists() else ()
)
print("OpenMP in this process:", ", ".join(sorted(names)) or "none, or this system does not tell")

# %% [markdown]
# TensorFlow's wheels bring a thread pool of their own and pay no heed to `OMP_NUM_THREADS`; PyTorch's
# use GNU's OpenMP, `libgomp`, to which `KMP_BLOCKTIME` and `KMP_AFFINITY` mean nothing, since they
# are Intel's (`libiomp5`). Builds for a cluster may be different ones: measure, as here. What holds
# everywhere is the product: ranks × threads is to be the number of cores, or they take turns.

# %% [markdown]
# ## 12. On the cluster

# %%
for path in sorted((CHECKOUT / "slurm").glob("05_*.slurm")):
    lines = path.read_text().replace('"${container[@]}" ', "").splitlines()
    starts = [
        line.strip(" \\") for line in lines if line.startswith(("srun", "mpirun", "horovodrun"))
    ]
    print(f"{path.name:27} {starts[-1]}")

# %% [markdown]
# `mpirun` starts one process for each rank, and Horovod asks MPI who they are. `horovodrun` starts
# them itself: on other nodes by ssh, or by what answers to that name, as does
# `slurm/ssh_by_srun/ssh`, which has SLURM start them. `srun` starts them too, and here without MPI
# (`--mpi=none`): `hvd.init()` alone would then find nobody and be rank 0 of 1. The training script
# first gives Horovod what horovodrun would have given (`hpml.train.horovod`), and is otherwise the
# same.

# %% tags=["nbval-ignore-output"]
if not shutil.which("sbatch"):
    skip("Horovod on several nodes", "there is no SLURM here; slurm/05_*.slurm are what you submit")
shutil.rmtree(FOLDER)

# %% [markdown]
# Six lines, and what is behind them: a thread that negotiates by name, a buffer that fuses, a ring
# that sends. Module 06 takes the ring and builds the rest by hand. Your exercises are in
# `exercises/05_horovod.ipynb`.
