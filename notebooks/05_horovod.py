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
# # 05 Horovod
#
# Horovod turns a training script for one process into one for many, in PyTorch and in Keras, with a
# few new lines. Which lines are they? What happens behind them, and what does it cost on a slow
# network?
#
# Before most cells there is a question in italics. Write down your answer, then run the cell. A
# heading that ends in *(more)* begins a section for the evening: you can skip it today.

# %%
# %load_ext hpml
# %matplotlib inline
import torch

from hpml.errors import UserError
from hpml.publish import conclude, publish, publish_figure, skip

# %% [markdown]
# ## 1. From one process to many
#
# In 2017, distributed TensorFlow meant parameter servers. It took many changes to a script, and on
# 128 GPUs about half of the speed was lost (Sergeev and Del Balso 2018, sections 1 and 2). Horovod
# was made for two goals: **few changes** to a script that runs on one GPU, and **good scaling**.
# For the first it took over MPI's words (rank, size, all-reduce, broadcast). For the second it
# replaced the servers by Baidu's ring all-reduce (module 01), and soon let NCCL do it.
#
# `serial_torch.py` in `hpml/frameworks` trains a small network on CIFAR-10 with one process;
# `horovod_torch.py` does the same with many.
#
# *Predict: what must a script do differently when several processes train one network? In Keras the
# loop is inside `fit`: where can these steps be put there, and what must be averaged, besides the
# gradients? List what you can think of.*

# %%
from hpml.frameworks.run import changes, lines_of_code, run

for_torch = changes("serial_torch", "horovod_torch")
print("\n".join(for_torch))
print(f"\n{lines_of_code(for_torch)} lines are new or changed")

# %% [markdown]
# The forward pass, the loss and the backward pass are not among them. Each change has its reason:
#
# | line | without it |
# |---|---|
# | `hvd.init()` | a process knows neither its rank nor the number of ranks |
# | `DistributedSampler` | every rank trains on the same images |
# | `set_epoch` | every epoch has the order of the first |
# | learning rate × `hvd.size()` | fewer steps per epoch, each as short as before (module 01) |
# | `DistributedOptimizer` | no average of the gradients: each rank trains a network of its own |
# | `broadcast_parameters` | averaged gradients on different starting weights |
# | `broadcast_optimizer_state` | after a resume, only rank 0 has the momentum |
# | `if hvd.rank() == 0` | every rank prints, and overwrites the checkpoint of the others |
#
# Only a missing `hvd.init()` gives an error. Without one of the others the script runs, the loss goes
# down, and nothing warns you. (`hvd_torch` is your exercise. Its check looks for each of them.)
#
# The same in Keras:

# %%
for_keras = changes("serial_keras", "horovod_keras")
print("\n".join(for_keras))
print(f"\n{lines_of_code(for_keras)} lines are new or changed")

# %% [markdown]
# The optimizer is wrapped as in PyTorch. What must happen at a certain moment becomes a *callback*:
# the broadcast after the first batch, when all variables exist, and the average of the *metrics* at
# the end of each epoch. Without that average, each rank reports the accuracy of its own share.

# %% [markdown]
# ### Keras 2 and Keras 3 *(more)*
#
# Horovod's last version, 0.28.1, is from 2023 and was made for Keras 2. Since version 2.16,
# TensorFlow comes with Keras 3. *Predict: does the script above run with Keras 3?*

# %%
error = ""
try:
    run("horovod_keras", ranks=1, images=500, epochs=1, environment={"TF_USE_LEGACY_KERAS": "0"})
except UserError as failed:
    error = str(failed)
    print(error)

# %%
conclude(
    bool(error),
    "No, it stops with an error.",
    "the script ran: this TensorFlow's Keras 3 and Horovod get along.",
)

# %% [markdown]
# Keras 2 lives on in a package of its own, `tf_keras`. Set `TF_USE_LEGACY_KERAS=1` before
# TensorFlow is imported, and `tf.keras` is that package. The ranks of this notebook have it set; in
# a job script the line is yours. `hvd.DistributedGradientTape`, for loops that you write yourself,
# runs with both. (`hvd_keras` is your exercise.)

# %% [markdown]
# ## 2. Tensors have names
#
# Which tensors belong together? In `torch.distributed` the order of the calls decides: the first call
# of one rank belongs to the first call of the others. In Horovod the *name* decides. A rank hands a
# tensor over to a background thread. The threads of all ranks agree, again and again, on the tensors
# that *all* ranks have handed over by now. That is the **negotiation**.
#
# *Predict: rank 0 hands over `a`, then `b`; rank 1 does it in the other order. What comes out?*

# %%
# %%ranks 2 --horovod --out means
import horovod.torch as hvd

values = {"a": torch.tensor([1.0 + rank]), "b": torch.tensor([10.0 + rank])}
order = ("a", "b") if rank == 0 else ("b", "a")
handles = {name: hvd.allreduce_async(values[name], name=name) for name in order}
means = {name: hvd.synchronize(handles[name]).item() for name in ("a", "b")}

# %%
conclude(
    all(of_rank == {"a": 1.5, "b": 10.5} for of_rank in means),
    f"The right means, on both ranks: `a` {means[0]['a']}, `b` {means[0]['b']}.",
    f"the ranks have {means}.",
)

# %% [markdown]
# That is why Horovod needs names: TensorFlow runs operations as soon as their inputs are ready, and
# that order differs from rank to rank.
#
# *Predict: rank 1 has one layer more than rank 0. It hands over a gradient that rank 0 does not
# have. What happens?*


# %%
from hpml.ranks import launch


def one_more_on_rank_1():
    import horovod.torch as hvd

    hvd.allreduce(torch.ones(3), name="gradient of layer 1")
    if hvd.rank() == 1:
        hvd.allreduce(torch.ones(3), name="gradient of layer 2")
    hvd.allreduce(torch.ones(3), name="loss")


evidence = launch(one_more_on_rank_1, 2, flavour="horovod", timeout=30)
print(evidence.diagnosis.sentence)

# %% [markdown]
# The job hangs, with each rank in a call that the other has not made. After a minute, Horovod
# prints a warning, "One or more tensors were submitted to be reduced, gathered or broadcasted by
# subset of ranks", with the names of the tensors and the ranks that are missing. When a job stands
# still, look for it in the log.

# %% [markdown]
# ## 3. Many small tensors
#
# A network has hundreds of small gradients. **Tensor fusion** copies those that are ready into one
# buffer and sends it as one message. `HOROVOD_FUSION_THRESHOLD` is the size of the buffer: 128 MB
# by default (64 MB before version 0.21), and 0 switches fusion off. Every `HOROVOD_CYCLE_TIME`, 1
# ms by default, Horovod looks at which tensors are ready.
#
# We average 200 tensors of 4 kB on two ranks, without fusion and with it, and then one tensor with
# as many bytes.
#
# *Predict: how many messages does a step take in each of the three cases? How many times as long
# does the first take as the third, over 1 Gbit/s and over 100 Mbit/s?*

# %% tags=["nbval-ignore-output"]
from hpml.bench.fusion import (
    LARGE,
    SMALL_OFF,
    SMALL_ON,
    STEPS,
    compare,
    timeline_name,
    what_remains,
)
from hpml.paths import home
from hpml.trace import horovod_drawing, horovod_timeline_file

TIMELINES = home() / "timelines"
TIMELINES.mkdir(exist_ok=True)
try:
    fusion = compare(TIMELINES)
    print(fusion)
    publish(
        "what tensor fusion is worth",
        fusion.ratios(SMALL_OFF, SMALL_ON),
        unit="×",
        caption="200 tensors of 4 kB on two ranks: seconds of a step one by one, over seconds fused.",
    )
except UserError as why:
    fusion = None
    skip("tensor fusion over slow links", str(why))

# %% tags=["nbval-ignore-output"]
if fusion:
    off, on, one = (fusion.messages("1gbit", case) for case in (SMALL_OFF, SMALL_ON, LARGE))
    conclude(
        off == 200 and on < 20,
        f"Messages: {off} one by one, {on} with fusion, {one} for the large tensor.",
        f"messages: {off} one by one, {on} with fusion. Few tensors were ready at a time, since the "
        "machine is busy.",
    )
    slower = fusion.ratios(SMALL_OFF, LARGE)
    conclude(
        slower["1gbit"] > slower["100mbit"] > 1,
        f"One by one takes {slower['1gbit']:.0f} times as long as one large tensor over 1 Gbit/s, "
        f"{slower['100mbit']:.1f} times over 100 Mbit/s. **The fast network needs fusion most.**",
        f"one by one took {slower['1gbit']:.1f} times as long over 1 Gbit/s, "
        f"{slower['100mbit']:.1f} times over 100 Mbit/s: the two cores are busy.",
    )
    rest = what_remains(fusion, "1gbit")
    conclude(
        rest.held,
        f"Fused, the step takes {rest.longer:.1f} ms longer than one large tensor of as many bytes. "
        f"{rest.calls:.1f} ms of that are processor time of the rank's own calls, two for each of "
        f"{SMALL_ON.tensors} tensors: one hands it over, one collects it. No fusion saves these. From "
        f"the first negotiation to the last copy, Horovod records {rest.fused:.1f} ms, and "
        f"{rest.large:.1f} ms for the large tensor.",
        f"fused took {rest.longer:.1f} ms longer than one large tensor, and the rank's own calls took "
        f"{rest.calls:.1f} ms: the cores are busy.",
    )

# %% [markdown]
# The tensors have the same bytes in all three cases, 0.8 MB. Fusion saves what each message costs
# anew: its start, the wait for the other rank, headers and acknowledgements. The faster the link,
# the larger the share of these costs. On a real network each message also has its latency, which
# these links do not have.

# %% [markdown]
# ### The timeline
#
# With `HOROVOD_TIMELINE=file`, rank 0 records what happens to each tensor. In the picture each
# tensor has a row. Time begins with the first negotiation, later than in the milliseconds above. A
# tensor's **negotiation** lasts from the first rank that hands it over to the last.
#
# *Predict: what do the 200 rows look like, one by one?*

# %% tags=["nbval-ignore-output"]
if fusion:
    _, one_by_one = fusion.steps["1gbit", SMALL_OFF]
    publish_figure(
        "200 tensors one by one in Horovod's timeline",
        horovod_drawing.timeline(
            one_by_one, title="One by one: each message waits for those before it"
        ),
        "200 tensors of 4 kB on two ranks behind links of 1 Gbit/s; a row for each tensor.",
    )

# %% [markdown]
# A staircase: one message at a time. A long negotiation can mean that a rank is late, but it need
# not. Horovod's thread negotiates, sends *everything* that was agreed on, and only then negotiates
# again. If one rank hands over a tensor a moment too late for a round, the tensor waits until that
# whole round is sent. Where that took more than 3 % of the step, a box in the picture names it.
#
# ### Fused *(more)*
#
# *Predict: what do the rows look like with fusion?*

# %% tags=["nbval-ignore-output"]
if fusion:
    _, fused = fusion.steps["1gbit", SMALL_ON]
    count = fusion.messages("1gbit", SMALL_ON)
    publish_figure(
        "tensor fusion in Horovod's timeline",
        horovod_drawing.timeline(fused, title=f"Fused: 200 tensors, number of messages: {count}"),
        "200 tensors of 4 kB on two ranks behind links of 1 Gbit/s; a row for each tensor.",
    )

# %% [markdown]
# Blocks: tensors that travel together have their transfer at the same time, between a copy into the
# buffer and a copy out of it. Tensors that are late for a round travel in the next message.
#
# The files are in `.hpml/timelines`; open them with `chrome://tracing` or https://ui.perfetto.dev.
# (`./hpml bench fusion` measures with more rounds.)

# %% [markdown]
# ### One row for each message *(more)*

# %% tags=["nbval-ignore-output"]
if fusion:
    publish_figure(
        "a row for each message in Horovod's timeline",
        horovod_drawing.timeline(
            fused, per="collective", title="Each message: copy in, transfer, copy out"
        ),
        "The same step; a row for each message.",
    )

# %% [markdown]
# A job that is killed leaves a file that ends in the middle of a line. *Predict: is what came
# before lost?*

# %% tags=["nbval-ignore-output"]
if fusion:
    file = TIMELINES / timeline_name(SMALL_ON, "1gbit")
    whole, cut = horovod_timeline_file.read(file), horovod_timeline_file.read_first_half(file)
    print(f"The file is of a launch of {STEPS} steps; the pictures have one of them.")
    print(f"whole: {whole.describe()}\n  cut: {cut.describe()}")

# %% tags=["nbval-ignore-output"]
if fusion:
    conclude(
        cut.cut and len(cut.operations) > 0,
        "No: everything up to there can still be read.",
        "nothing could be read from the first half of the file.",
    )

# %% [markdown]
# Chrome's viewer may decline such a file; add the missing `]` by hand. (`hvd_fusion` is your
# exercise: read a timeline yourself.)

# %% [markdown]
# ## 4. Who carries the bytes?
#
# Horovod does not send anything itself. It leaves two jobs to other libraries:
#
# | library | what it is | negotiation | gradients |
# |---|---|---|---|
# | MPI | knows the cluster's network and its launcher | yes | on processors; on GPUs if it is CUDA-aware |
# | Gloo | needs only TCP; built in by default | yes | on processors |
# | NCCL | GPU to GPU over NVLink, PCIe and the network | no | on GPUs |
#
# **MPI and NCCL work together.** `mpirun` starts the ranks, MPI carries the short messages of the
# negotiation, and NCCL the gradients, from GPU to GPU. With NCCL it hardly matters whether MPI or
# Gloo negotiates; on processors, MPI carries gradients faster, says Horovod's documentation. On a
# cluster, use the MPI that was built for its network.
#
# ### From MPI to NCCL *(more)*
#
# Rank 0 makes an identifier for NCCL and broadcasts it by MPI; then all ranks enter NCCL's
# communicator. With GPUDirect RDMA, the network adapter reads the GPU's memory itself, and no copy
# goes through the processor's memory. NCCL uses that where it finds it. A CUDA-aware MPI accepts
# pointers to GPU memory too, but on NVIDIA GPUs NCCL is the usual choice for the gradients.

# %% [markdown]
# ### Gloo against MPI, measured *(more)*
#
# *Predict: which is quicker within one machine, at 4 bytes and at 4 MB? Is it the same one at all
# sizes?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m05_horovod.lecture import gloo_against_mpi

try:
    both = gloo_against_mpi.compare()
    print(both)
except UserError as why:
    both = None
    skip("MPI against Gloo", str(why))

# %% tags=["nbval-ignore-output"]
if both:
    ratio, winner = both.gloo[4_000_000] / both.mpi[4_000_000], both.winner(4, 4_000, 400_000)
    few = "From 4 to 400,000 bytes " + (
        f"{winner} is quicker at each of these sizes."
        if winner
        else "the order changes from size to size: there is no winner."
    )
    conclude(
        both.winner(4_000_000) == "MPI",
        f"At 4 MB MPI is {ratio:.1f} times as quick as Gloo. {few}",
        f"at 4 MB Gloo's seconds are {ratio:.2f} times MPI's, where MPI should be quicker: the cores "
        f"are busy. {few}",
    )

# %% [markdown]
# Each figure is the quickest of twenty, and a library counts as quicker from 1.25 times on. Within
# one machine, Open MPI uses memory that the ranks share, and Gloo uses sockets. For few bytes the
# wait for Horovod's next cycle, up to a millisecond, is as long as what is measured.

# %% [markdown]
# ## 5. On the cluster
#
# Three programs can start Horovod's ranks. These are the lines in `slurm/05_*.slurm`:

# %%
import shutil

from hpml.cluster.job_script import start_line
from hpml.machine import topology
from hpml.modules.m05_horovod.lecture import binding
from hpml.paths import CHECKOUT

for path in sorted((CHECKOUT / "slurm").glob("05_*.slurm")):
    print(f"{path.name:27} {start_line(path)}")

# %% [markdown]
# - `mpirun` starts one process for each rank, and Horovod asks MPI for rank and size.
# - `horovodrun` starts them itself. For other nodes it calls `ssh`; where a cluster does not allow
#   that, `slurm/ssh_by_srun/ssh` takes the place of `ssh` and lets SLURM start them.
# - `srun --mpi=none` starts them without MPI. A bare `hvd.init()` would then be rank 0 of 1 in *every*
#   process. So the script must first set the variables that horovodrun would have set
#   (`hpml.train.horovod` does it).
#
# **Binding**: on which cores may a rank run? By default Open MPI 4 binds each rank to one core if
# there are at most two ranks, and else to one socket (a *socket* holds one processor). *Predict:
# two ranks, each with two threads, on the default. How many cores do the threads of one rank get?*

# %% tags=["nbval-ignore-output"]
sockets = len(topology.read().usable().sockets)
OPTIONS = ("", "--bind-to none", binding.per_socket(2, sockets))
try:
    cores = {options: binding.cores_by_rank(options.split()) for options in OPTIONS}
    for options, (first, second) in cores.items():
        print(f"mpirun -np 2 {options:40} rank 0 on cores {first}, rank 1 on cores {second}")
except UserError as why:
    cores = None
    skip("where mpirun binds ranks", str(why))

# %% tags=["nbval-ignore-output"]
if cores:
    default, none, _ = cores.values()
    conclude(
        all(len(of_rank) == 1 for of_rank in default) and len(none[0]) > 1,
        "One: both threads take turns on it. With `--bind-to none` they may use all "
        f"{len(none[0])} cores. (This machine has {sockets} socket{'s' * (sockets > 1)}, hence "
        f"`{OPTIONS[-1].split()[1]}`.)",
        f"the default gave rank 0 {len(default[0])} cores, `--bind-to none` {len(none[0])}.",
    )

# %% [markdown]
# So the job scripts have `--bind-to none`, as Horovod's documentation advises. All threads find a
# core then, but the system may move a rank to another socket, away from its memory. On a node with
# two sockets, `--map-by ppr:1:socket --bind-to socket` is better (ppr: *processes per resource*): one
# rank for each socket, with all its cores, and the memory beside them. With GPUs, start as many ranks
# per socket as it has GPUs. `--report-bindings` prints what you got.

# %% tags=["nbval-ignore-output"]
if not shutil.which("sbatch"):
    skip("Horovod on several nodes", "there is no SLURM here; slurm/05_*.slurm are what you submit")

# %% [markdown]
# ## 6. Half the bytes *(more)*
#
# `compression=hvd.Compression.fp16` turns each gradient into 16-bit numbers before it is sent, and
# back after. *Predict: how many bytes are sent then? And what happens to the loss?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m05_horovod.lecture import gradient_compression

# Each: eight steps of a small network on two ranks, over links of 100 Mbit/s
plain, fp16 = (gradient_compression.train(kind) for kind in ("none", "fp16"))
if not plain.sent:
    skip("bytes with compression", "no network can be emulated here")

# %% tags=["nbval-ignore-output"]
if plain.sent:
    saved = gradient_compression.saved(plain, fp16)
    conclude(
        saved.held,
        f"{saved.share:.3f} of the bytes: {fp16.sent:.2f} MB instead of {plain.sent:.2f} MB. After "
        f"{len(plain.losses)} steps the losses, {plain.losses[-1]:.4f} without and "
        f"{fp16.losses[-1]:.4f} with compression, differ by {saved.apart:.0e}: rounding changed nothing "
        "that can be seen in these few steps.",
        f"fp16 sent {saved.share:.2f} of the bytes, and the losses differ by {saved.apart:.4f}.",
    )

# %% [markdown]
# It is not exactly half: names and headers are not compressed. Eight steps show little: try a long
# run before you rely on it. What fp16 lacks is range: a gradient beyond 65,504 becomes infinite, and
# one below 3·10⁻⁸ zero. The order matters, too: compressed after the sum, nothing would be saved.
# (`hvd_compression` is your exercise.)

# %% [markdown]
# ## 7. Two levels *(more)*
#
# The ranks of a node are close to each other, and the nodes are far apart: `--link
# nodes=2x2,intra=10gbit,inter=1gbit`. A ring over all ranks takes no notice of that. The
# *hierarchical* all-reduce of module 01 does: reduce-scatter within each node; then each rank
# all-reduces its own share with its counterpart on the other node; then all-gather within each
# node. Horovod's `HOROVOD_HIERARCHICAL_ALLREDUCE=1` does the same: NCCL within the node, MPI
# between nodes. (With Gloo alone, as here, Horovod ignores it. So module 01's own functions show
# it.)
#
# *Predict: 4 MB on two nodes of two ranks. How many MB leave each node in a ring over all four
# ranks? And in the hierarchical all-reduce?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m05_horovod.lecture import between_nodes
from hpml.predict import collectives

out = [between_nodes.leaves_a_node(algorithm) for algorithm in ("ring", "hierarchical")]
if None in out:
    skip("two levels", "no network can be emulated here")

# %% tags=["nbval-ignore-output"]
if None not in out:
    ring, levels = out
    due, levels_due = (collectives.all_reduce_bytes(p, 4_000_000) / 1e6 for p in (4, 2))
    seen = (
        f"{ring.sent:.1f} MB leave a node, of which {due:.1f} MB are due. Hierarchical: "
        f"{levels.sent:.1f} MB, of which {levels_due:.1f} MB are due. On top come headers and "
        f"acknowledgements: the ring's {ring.packets:,} packets have {ring.headers:.2f} MB of headers, "
        f"the other's {levels.packets:,} have {levels.headers:.2f} MB."
    )
    if max(ring.again, levels.again):
        seen += (
            f" And TCP sent {ring.again} and {levels.again} packets again, at most {ring.repeated:.2f} "
            f"and {levels.repeated:.2f} MB."
        )
    conclude(
        levels.sent < ring.sent,
        f"Ring: {seen}",
        f"the hierarchical one did not send less. Ring: {seen}",
    )

# %% [markdown]
# In the ring of *p* = 4 ranks, each sends 2(*p*−1)/*p* = 1.5 times its 4 MB, and on each node one
# rank has its neighbour on the other node: 6 MB. In the hierarchical all-reduce, N nodes behave
# like a ring of N ranks: 2(N−1)/N times, here once. On top of 1448 bytes come 66 of headers. The
# earlier links did not show them: there the kernel counts a large bundle of packets with one header.
# Here such bundles come from links of 10 Gbit/s, and the slower one cuts them into packets. This
# network loses nothing. But packets can overtake others on their way, and TCP then takes the late
# ones for lost and sends them again.
#
# The gain depends on N. With eight GPUs per node, a ring sends 1.9 times the bytes over a link
# between 2 nodes, and the hierarchical one 1.0 times. Between 32 nodes it is 1.99 against 1.94
# times: hardly a difference. What remains there is the number of steps, 2·255 against 2·(7 + 31),
# and so the latency. NCCL builds such rings and trees from the topology by itself.

# %% [markdown]
# ## 8. Settings that Horovod finds by itself *(more)*
#
# How many bytes to fuse, how long a cycle is, whether to cache what was negotiated: the best values
# depend on network and model. With `HOROVOD_AUTOTUNE=1`, Horovod tries values during the first
# steps and keeps the best. A Gaussian process (Bayesian optimisation) chooses what to try next.
#
# *Predict: it tries six points. By how much does the best of them beat the defaults, a cycle of 1 ms
# and a buffer of 128 MB?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m05_horovod.lecture import autotune

# Two ranks average 50 tensors of 16 kB, over 1 Gbit/s
log, default = autotune.tried(steps=460), autotune.by_default()
print(autotune.table(log, default))

# %% tags=["nbval-ignore-output"]
found = autotune.found(log, default)
verdict = (
    f"That is {found.best / default:.2f} times what the defaults have, {default:.1f}."
    if found.beats
    else f"The defaults have {default:.1f}, more than all that was tried."
    if found.beaten
    else f"The defaults have {default:.1f}: so little was to be gained here."
)
conclude(
    found.held,
    f"The best of {found.points} points is a cycle of {found.cycle:g} ms and a buffer of "
    f"{found.threshold:g} MB: {found.best:.1f} bytes per microsecond, {found.best / found.worst:.1f} "
    f"times the worst. {verdict}",
    f"the best point has {found.best:.1f} bytes per microsecond and the worst {found.worst:.1f}: the "
    "settings made no difference that can be seen.",
)

# %% [markdown]
# Each line stands for fifty steps, after 150 to warm up; the last one is ours, fifty steps without
# the tuner. The threshold is in MB. The score is bytes per microsecond: more is better. The first
# four points are always the same; then the Gaussian process proposes. None of them is the defaults:
# for a job that runs for days, measure these too before you trust the best of the list.

# %% [markdown]
# ## 9. Adasum *(more)*
#
# The mean of the gradients is what a large batch means, and it wants a scaled learning rate (module
# 01). *Adasum*, `op=hvd.Adasum`, combines two gradients according to the angle between them (Maleki
# et al. 2020, arXiv:2006.02924):
#
# $$\mathrm{Adasum}(a, b) = \left(1 - \frac{a \cdot b}{2\,\|a\|^2}\right) a + \left(1 - \frac{a \cdot
# b}{2\,\|b\|^2}\right) b$$
#
# *Predict: what is it for parallel gradients of one length, and what for orthogonal ones?*


# %%
def adasum(a, b):
    along = a @ b / 2
    return (1 - along / (a @ a)) * a + (1 - along / (b @ b)) * b


# %%
x, y = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
conclude(
    adasum(x, x).equal(x) and adasum(x, y).equal(x + y),
    f"Parallel: their mean, {adasum(x, x).tolist()}. Orthogonal: their sum, {adasum(x, y).tolist()}.",
    f"parallel {adasum(x, x).tolist()}, orthogonal {adasum(x, y).tolist()}.",
)

# %% [markdown]
# Which learning rate? Horovod's own example (`examples/pytorch/pytorch_mnist.py`) multiplies it by
# `hvd.size()` for the mean and by 1 for Adasum on processors, where Adasum needs MPI. With NCCL,
# Horovod averages within each node and uses Adasum between nodes only: there the factor is
# `hvd.local_size()`. Its user guide has found factors of 2 to 2.5 better in small cases: try.

# %% [markdown]
# ## 10. A worker is lost *(more)*
#
# `elastic_torch.py` trains the same network, but workers may come and go. What must survive is in a
# *state*, and the script commits it now and then.

# %%
from hpml.modules.m05_horovod.lecture import elastic_horovodrun

print("@hvd" + elastic_horovodrun.SCRIPT.read_text().partition("@hvd")[2])

# %% [markdown]
# `horovodrun` asks a script of yours which hosts there are. Here it prints `localhost` and
# `127.0.0.1`, two names of this machine, with a worker on each. After twenty steps we kill the
# second one.
#
# *Predict: what happens to the other? From which step does it go on, with how many workers?*

# %% tags=["nbval-ignore-output"]
loss = elastic_horovodrun.lose_second_host(
    20, environment={"HPML_EPOCHS": "8", "HPML_IMAGES": "1000"}
)
print("\n".join(loss.printed))

# %% tags=["nbval-ignore-output"]
again = loss.went_on_from
conclude(
    loss.exit_code == 0 and len(again) == 1,
    f"It goes on alone from step {again[0] if again else '?'}, the last one committed, and reaches "
    "the end.",
    f"horovodrun ended with exit code {loss.exit_code}.",
)

# %% [markdown]
# The `allreduce` of the worker that was left failed. It went back to the last commit, waited until
# `horovodrun` reported who is there now, and called `train` again. Its process went on: unlike with
# `torchrun` (module 06), it imports nothing anew and reads no checkpoint from disk. The price: the
# steps since the last commit, and memory for a copy of the state. `horovodrun` starts nothing more
# on the host that failed. New hosts that its script reports get the state from rank 0.

# %% [markdown]
# ## 11. TensorFlow: from files to batches *(more)*
#
# Module 04 builds such a pipeline step by step; here is what it gains. TensorFlow's format for
# images is the TFRecord: many records in a file, and several files, to be read at the same time.
#
# *Predict: which of these makes the most difference, if a GPU takes 10 ms for each batch of 250 and
# your cores do the rest?* **interleave** reads four files at a time; **parallel map** decodes and
# augments several images at a time; **cache** keeps what the first epoch decoded; **prefetch**
# makes the next batch while the GPU works.

# %% tags=["nbval-ignore-output"]
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

from hpml.data import load, tfrecord
from hpml.data.batches import MEAN, STD
from hpml.measure.loading import best_by_turns
from hpml.train.draw import SKY, speeds

FOLDER = Path(tempfile.mkdtemp(prefix="hpml-05-"))
DATA = "SYNTHETIC images, not CIFAR-10" if load().synthetic else "CIFAR-10"
tf = tfrecord.tensorflow(remarks=False)
names = [str(f) for f in tfrecord.write(load().train, FOLDER / "train", shards=8, count=5_000)]
AUTO = tf.data.AUTOTUNE


def augment(image, label):
    """uint8 [32, 32, 3] to float32: mirrored by a coin, shifted by up to two pixels, normalised."""
    image = tf.image.random_flip_left_right(image)
    image = tf.pad(image, [[2, 2], [2, 2], [0, 0]], "REFLECT")
    image = tf.image.random_crop(image, tfrecord.SHAPE)
    return (tf.cast(image, tf.float32) / 255 - MEAN) / STD, label


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
pipelines = {name: tfrecord.as_written(pipeline) for name, pipeline in pipelines.items()}

# %% tags=["nbval-ignore-output"]
GPU = 0.01  # seconds for a batch, played by waiting
rates = best_by_turns(pipelines, GPU)
before, *_, after = rates.values()
title = f"With all four steps, tf.data is {after / before:.1f} times as fast ({DATA})"
publish_figure(
    "loading for a GPU of 25,000 images/s",
    speeds(rates, ideal=250 / GPU, title=title, colours=[SKY] * len(rates)),
    "5,000 augmented images in batches of 250, for a device that is busy for 10 ms with each; "
    "dashed: what it could take.",
)

# %% tags=["nbval-ignore-output"]
gains = {later: rates[later] / rates[earlier] for earlier, later in pairwise(rates)}
most = max(gains, key=gains.get)
conclude(
    after > 1.2 * before,
    f"All four together make the pipeline {after / before:.1f} times as fast. "
    f"*{most.removeprefix('… ')}* adds the most here: {gains[most]:.2f} times.",
    f"the four made the pipeline {after / before:.2f} times as fast: the cores were busy otherwise.",
)

# %% [markdown]
# Without prefetch, a step takes as long as making the batch *and* computing on it; with it, as the
# longer of the two. The order matters: a cache after the augmentation would hand out the same
# shifts in each epoch.

# %%
shutil.rmtree(FOLDER)

# %% [markdown]
# ## 12. MultiWorkerMirroredStrategy *(more)*
#
# TensorFlow's own way to many processes. Each worker finds all workers' addresses and its own
# number in `TF_CONFIG`. Variables made under the strategy's scope are mirrored, and gradients are
# averaged by a ring over gRPC. *Compared with Horovod, what is different?*

# %%
from hpml.frameworks.run import changes, lines_of_code
from hpml.predict import collectives

by_strategy = changes("serial_keras", "multi_worker_keras")
print("\n".join(by_strategy))
print(f"\n{lines_of_code(by_strategy)} lines are new or changed")

# %% [markdown]
# The batch is the batch of all workers together, and `fit` shares it out. It averages the metrics
# too. Here is the strategy at its smallest, on two ranks with links of 1 Gbit/s: one variable, one
# average.
#
# *Predict: 4 MB of gradients on two workers, five times. How much does each send?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --no-group --link 1gbit --evidence grpc --timeout 120
from hpml.data import tfrecord
from hpml.frameworks.run import set_tf_config

set_tf_config(rank, world_size)  # who the workers are, and which of them this is
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
    least = 5 * collectives.all_reduce_bytes(2, 4_000_000) / 1e6
    counted = grpc.ranks[0].traffic.sent_bytes / 1e6
    conclude(
        least <= counted < 1.1 * least,
        f"{counted:.1f} MB: the {least:.0f} MB that any all-reduce of two ranks must send, and gRPC's "
        "headers.",
        f"{counted:.1f} MB, where {least:.0f} MB are due.",
    )

# %% [markdown]
# Module 06 trains with this strategy, with Horovod and with DDP, side by side.

# %% [markdown]
# ## 13. How many threads? *(more)*
#
# `intra_op` is how many threads share one operation, `inter_op` how many operations run at a time,
# `OMP_NUM_THREADS` how many threads a library with OpenMP uses. Which of them counts depends on how
# the program was built. *Predict: with two cores, which of these changes anything for Keras, and
# which for PyTorch?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m05_horovod.lecture import threads

measured = threads.compare()
print(measured)

# %% tags=["nbval-ignore-output"]
conclude(
    measured.held,
    "Keras follows its own variables and ignores `OMP_NUM_THREADS`; PyTorch follows it.",
    "no clear difference: the second core was busy with something else.",
)

# %% [markdown]
# TensorFlow's wheels bring their own thread pool. PyTorch's wheels use GNU's OpenMP, `libgomp`.
# `KMP_BLOCKTIME` and `KMP_AFFINITY` belong to Intel's (`libiomp5`), and `libgomp` ignores them.
# Builds for a cluster may differ: measure, as here. One rule holds everywhere: ranks × threads
# should be the number of cores, or threads take turns.

# %% [markdown]
# ## What to take home
#
# 1. A few lines make a script distributed. Only a missing `init` gives an error: when you forget one
#    of the others, the result is worse or wrong, and nothing warns you.
# 2. Horovod matches tensors by name, and fuses small ones into few messages: the faster the network,
#    the more that is worth.
# 3. When a job is slow, read the timeline and check which cores the ranks are bound to. When it stands
#    still, look for the warning about missing ranks in the log.

# %% [markdown]
# ### Where to read on *(more)*
#
# - Sergeev, Del Balso 2018, *Horovod: fast and easy distributed deep learning in TensorFlow*,
#   arXiv:1802.05799: section 3 the ring, 6 the timeline, 7 fusion.
# - Horovod's documentation, https://horovod.readthedocs.io: *Tensor Fusion*, *Analyze Performance*,
#   *Horovod with MPI*, *Elastic Horovod*.
# - Open MPI's manual page `mpirun(1)`: mapping, ranking and binding.
# - NCCL's user guide, https://docs.nvidia.com/deeplearning/nccl: communicators, environment variables.
#
# Your exercises are in `exercises/05_horovod.ipynb`, `hvd_torch` first. Module 06 does the same by
# hand with `torch.distributed`.

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/05_horovod.ipynb) of this module: first `hvd_torch`; for the evening `hvd_keras`, `hvd_fusion`, `hvd_compression`.
