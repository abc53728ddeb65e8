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
# # 02 Hardware and its bottlenecks
#
# Compute, memory bandwidth, memory size, input and output, communication: one of them sets the pace
# of your training, and the others wait for it. Which one is yours?
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline
import torch
from torch import nn

from hpml.models.residual import ResidualNetwork
from hpml.publish import conclude, publish_figure, skip

# %% [markdown]
# ## 1. Which one is mine?
#
# A training step asks five things of a machine:
#
# - **compute**: multiplications and additions, FLOP/s
# - **memory bandwidth**: bytes between memory and the cores, byte/s
# - **memory size**: weights, gradients, optimizer states and activations have to fit, bytes
# - **input**: images from storage, decoded and augmented in time, images/s
# - **communication**: gradients to the other ranks and back, byte/s
#
# Below, two ranks train the course's network, each on 64 images a step.
#
# *Predict: what takes the most of a step over a link of 1 Gbit/s: loading, forward and backward, the
# update, or communicating? And over 25 Mbit/s? What do 256 GPUs add, bytes or messages?*


# %%
def training_steps():
    """Three steps of the course's network, 64 images each on this rank."""
    import torch.distributed as dist

    from hpml.data import augment, batches, load, normalize
    from hpml.ranks import mark

    model, loss_of = ResidualNetwork(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.85)
    feed = batches(load().train, range(3 * 64), batch_size=64)
    for _ in range(3):
        dist.barrier()
        mark("load")
        images, labels = next(feed)
        pixels = normalize(augment(images), channels_last=True)
        mark("forward")
        loss = loss_of(model(pixels), labels)
        mark("backward")
        loss.backward()
        mark("communicate")
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        mark("update")
        optimizer.step()
        optimizer.zero_grad()
        mark("end")


# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import bottleneck, step_at_scale
from hpml.ranks import launch
from hpml.record import kept
from hpml.trace.repetition import phases

marks = ["load", "forward", "backward", "communicate", "update", "end"]
runs = {link: launch(training_steps, 2, link=link) for link in ("1gbit", "25mbit")}
steps = {link: phases(run, marks) for link, run in runs.items()}
weights = sum(p.numel() for p in ResidualNetwork().parameters() if p.requires_grad)
figure = bottleneck.picture(steps, gradients=4 * weights)
if no_link := runs["1gbit"].no_link:
    skip("links of a given rate", no_link)
else:
    publish_figure(
        "where a training step spends its time",
        figure,
        "The quickest of three steps on two ranks of one thread each, over two links; phases in the order "
        "of the program. The black line is the lower bound for the gradients' bytes at the link's rate.",
    )
print(bottleneck.memory(runs["1gbit"]))

# %% tags=["nbval-ignore-output"]
if not no_link:
    found = bottleneck.found(steps["1gbit"], steps["25mbit"])
    conclude(
        found.held,
        f"**Answer.** At 1 Gbit/s *{found.fast}* takes the most, {found.fast_share:.0%} of the step; at 25 "
        f"Mbit/s it is *{found.slow}*, {found.slow_share:.0%}. The same program on the same processor has "
        "another bottleneck: one part of the machine has changed.",
        f"*{found.fast}* took the most at 1 Gbit/s ({found.fast_share:.0%}), *{found.slow}* at 25 Mbit/s "
        f"({found.slow_share:.0%}). That can be: other programs use these cores too.",
    )

# %% tags=["nbval-ignore-output"]
trained = kept.recorded("training")
scaled = step_at_scale.at_scale(trained.result["runs"][0], trained.device["name"])
conclude(
    scaled.held,
    f"**At 256 GPUs.** One {scaled.device} computes a step with {scaled.batch:,} images in {1e3 * scaled.compute:.1f} ms (recorded). "
    f"A ring of {scaled.ranks}, eight in a node and a port of 400 Gbit/s for each, adds {1e3 * scaled.latency:.1f} ms for "
    f"the latency of its messages (NCCL's own figures) and {1e3 * scaled.bytes:.2f} ms for bytes (data sheets): "
    f"{scaled.share:.0%} of a step without overlap, with {scaled.ranks * scaled.batch:,} images in it. The bottleneck is "
    "latency. A tree has fewer steps one after the other (module 08).",
    f"Computing takes {1e3 * scaled.compute:.1f} ms, latency {1e3 * scaled.latency:.1f} ms, bytes "
    f"{1e3 * scaled.bytes:.2f} ms.",
)

# %% [markdown]
# Memory size has no seconds: full memory ends the program (section 11). Is *forward and backward* the
# arithmetic, or the memory?

# %% [markdown]
# ## 2. This machine's roofline
#
# A core reads from a cache, and from memory what no cache has.

# %% tags=["nbval-ignore-output"]
from hpml.errors import UserError
from hpml.measure.bandwidth import data_caches, sweep, working_sets
from hpml.modules.m02_hardware.lecture import attention_parts, machine_roofline, roofline
from hpml.record import kept, pictures

# %% [markdown]
# ### What a cache is worth *(more)*
#
# *Predict: how much faster is a cache than memory? And which moves more bytes in a second, a copy, or
# an array that is multiplied in place?* The arrays grow out of one cache after another. What is
# counted is STREAM's (McCalpin 1995): each byte that the program asks to read or to write.

# %% tags=["nbval-ignore-output"]
sweeps = {kernel: sweep(kernel, working_sets()) for kernel in ("read", "copy", "in place")}
figure = roofline.sweep_picture(
    sweeps, data_caches(), title="Arrays that outgrow the caches have the memory's bandwidth"
)
publish_figure(
    "bandwidth over the working set",
    figure,
    "One core, float32. Dotted lines: the sizes of the caches (L1 is too small to be timed here). "
    "Bandwidth may fall before a line: other cores have data in a last cache as well, and on a "
    "virtual machine so have its neighbours.",
)

# %% tags=["nbval-ignore-output"]
copy, in_place = sweeps["copy"], sweeps["in place"]
near, far, most = max(copy.values()), copy[max(copy)], in_place[max(in_place)]
seen = (
    f"one core copies {near / 1e9:.0f} GB/s where the arrays fit into a cache, "
    f"{far / 1e9:.0f} GB/s in memory"
)
conclude(
    near > 1.5 * far,
    f"**Answer.** Here {seen}: {near / far:.1f} times.",
    f"{seen}. That can be: other programs use the same caches and the same memory.",
)
seen = f"In memory the same core moves {most / 1e9:.0f} GB/s in place, and {far / 1e9:.0f} GB/s when it copies"
conclude(
    most > 1.2 * far,
    f"{seen}. What a copy overwrites, the core fetches first, and that is not counted; in place nothing is "
    "fetched in vain. The roofline below takes the fastest of several kernels, so its line for one core is not "
    "the copy's rate.",
    f"{seen}: here a copy loses little by what it fetches and overwrites.",
)

# %% [markdown]
# ### What a layer can reach
#
# *Intensity* is work per byte: the FLOPs of a layer over the bytes it has to move. With it, the
# *roofline* (Williams et al. 2009) says how fast a layer can be at best:
#
# > speed = min(peak, bandwidth × intensity)
#
# The two are equal at the *ridge*, peak over bandwidth. Left of it memory is the limit, right of it
# compute.
#
# *Predict: a convolution, a linear layer with 1024 rows and with one, attention's projections,
# attention itself with its scores (one for each pair of tokens) in memory or not, batch
# normalisation, ReLU, Adam's step: which limit binds each?*

# %% tags=["nbval-ignore-output"]
images = torch.randn(256, 128, 16, 16)
layers = {
    "3×3 convolution": (nn.Conv2d(128, 128, 3, padding=1), images),
    "linear, 1024 rows": (nn.Linear(1024, 1024), torch.randn(1024, 1024)),
    "linear, 1 row": (nn.Linear(4096, 4096), torch.randn(1, 4096)),
    **attention_parts.parts(batch=64, tokens=64, width=192, heads=12),
    "batch normalisation": (nn.BatchNorm2d(128), images),
    "ReLU": (nn.ReLU(), images),
}
roofs, works, spread = machine_roofline.roofs_and_works(layers, adam=20_000_000)
all_cores = machine_roofline.whole(roofs)
title = "Left of the ridge, faster arithmetic is no help"
figure = roofline.picture(roofs, works, title=title, over=all_cores)
publish_figure(
    "this machine's roofline",
    figure,
    "Lines: at best, by type and number of cores, measured with matrix products, convolutions, and "
    "arrays that no cache holds, in turn with the layers. Points: layers in float32 on all cores, "
    "forward and backward, to be compared with the thick line. FLOPs of convolutions, matrix products "
    "and attention are as FlopCounterMode counts them; of the others, which it does not count, by "
    "hand: one for each number written, 14 for each of Adam's parameters. Bytes: what each operation "
    "has to read and to write, once (too few for a normalisation, which reads its input twice).",
)
print(machine_roofline.binding_table(works, all_cores))

# %% tags=["nbval-ignore-output"]
found = machine_roofline.sides(works, all_cores)
left, right = (", ".join(work.name for work in some) for some in (found.memory, found.compute))
far = ", ".join(f"{work.name} {work.share(all_cores):.0%}" for work in found.far)
if not (left and right):
    conclude(
        False,
        "Memory is the limit of some layers, compute of the others.",
        "all layers are on one side of the ridge here.",
    )
else:
    slow, fast = f"{found.slow.rate / 1e9:.0f}", f"{found.fast.rate / 1e9:.0f}"
    conclude(
        found.held,
        f"**Answer.** The ridge is at {all_cores.ridge:.1f} FLOP/byte ({all_cores.name}). Left of it, *memory* "
        f"is the limit: {left}, at best {slow} GFLOP/s here. Right of it, *compute* is: {right}, up to {fast}."
        + f" Less than half of what the limit allows: {far}. These move bytes or do work that is not counted (a "
        "normalisation reads its input twice, softmax has exponentials), or their code could be better."
        * bool(far),
        f"{found.slow.name} reached {slow} GFLOP/s, {found.fast.name} {fast}. That can be: other programs use "
        "these cores too.",
    )
both, flash = attention_parts.compare(works), pictures.attention(kept.recorded("roofline"))
seen = (
    f"Attention itself does {both.fused.intensity:.0f} FLOP for each byte in one kernel, and "
    f"{both.written.intensity:.1f} where its scores go through memory"
)
conclude(
    both.held and flash.held,
    f"{seen}. {both.here(all_cores.ridge)}. *FlashAttention* (Dao et al. 2022, arXiv:2205.14135) is such a kernel for "
    f"GPUs. One was recorded: there only the second is left of the ridge, {flash.ridge:.0f}, and they take "
    f"{1e3 * flash.fused:.1f} and {1e3 * flash.written:.1f} ms for {flash.tokens:,} tokens.",
    f"{seen}.",
)

# %% [markdown]
# Better code can lift a point below its roof (section 5). To get further right, a layer has to move
# fewer bytes: fuse it with its neighbour, use fewer bits, or take more rows at a time, so that each
# weight is used more often. `roofline` is your exercise; `slurm/02_roofline.slurm` measures each node
# of a cluster.
#
# ### Is the roof a roof? *(more)*
#
# A point above its roof would mean that the roof was measured too low, or that the data were in a
# cache. Memory was measured before the layers, after each of them, and at the end. Adam's step, whose
# arrays no cache holds, is one more measurement of it.

# %% tags=["nbval-ignore-output"]
highest = max(works, key=lambda work: work.share(all_cores))
seen = f"the highest, {highest.name}, is at {highest.share(all_cores):.0%} of its roof"
conclude(
    not machine_roofline.above(works, all_cores, spread),
    f"No point is above its roof by more than a measurement repeats to ({machine_roofline.REPEATS:.0%}; the roof's own "
    f"differ by {spread:.0%}, the best over the median): {seen}.",
    f"The roof's measurements differ by {spread:.0%}, and {seen}. Then other programs had the memory while the "
    "roof was measured, and it is too low.",
)

# %% [markdown]
# ### Fresh memory, or memory that is kept *(more)*
#
# One thing that holds a layer back is not in the picture: where its tensors come from.
#
# *Predict: ReLU's output of 34 MB is freed after each step. Does it matter whether the process keeps
# that memory or returns it?*

# %% tags=["nbval-ignore-output"]
pages = machine_roofline.pages("ReLU", *layers["ReLU"])
print(f"returned and fresh again: {1e3 * pages.fresh.seconds:6.1f} ms")
print(f"kept by the process:      {1e3 * pages.kept.seconds:6.1f} ms")

# %% tags=["nbval-ignore-output"]
fresh, kept_ms = 1e3 * pages.fresh.seconds, 1e3 * pages.kept.seconds
seen = (
    f"in memory that is fresh from Linux each time ReLU takes {fresh:.1f} ms, and in memory that the "
    f"process keeps {kept_ms:.1f} ms"
)
conclude(
    pages.held,
    f"**Answer.** Yes: {seen}, {fresh / kept_ms:.1f} times as fast. The difference is Linux's work: "
    f"{pages.fresh_faults:,} page faults against {pages.kept_faults:,} while they were measured. The table and "
    "the picture have kept memory.",
    f"{seen}, with {pages.fresh_faults:,} and {pages.kept_faults:,} page faults. Other systems differ.",
)

# %% [markdown]
# ### The same on a GPU *(more)*
#
# Products of matrices from 256 to 8192 rows by number type; attention over 2,048 tokens and GELU,
# operation by operation and as one kernel; and what it costs to launch a kernel: what a GPU showed.

# %% tags=["nbval-ignore-output"]
try:
    of_gpu = kept.recorded("roofline")
except UserError as why:
    of_gpu = None
    skip("a GPU's roofline", str(why))
else:
    publish_figure(
        "a GPU's roofline",
        pictures.roofline_picture(of_gpu, title="A GPU: products by number type, and fusion"),
        f"{of_gpu.origin}. Left: products by number type. Right: seconds of forward.",
    )

# %% tags=["nbval-ignore-output"]
if of_gpu is not None:
    found = pictures.products(of_gpu)
    most = found.most["bfloat16"]
    if "tf32" in found.most:
        tf32 = f" (and {most / found.most['tf32']:.2g} times tf32, float32 on tensor cores)"
    else:
        tf32 = ""
    seen = (
        f"bfloat16 reaches {most / 1e12:.3g} TFLOP/s, {most / found.most['float32']:.3g} times float32{tf32}, and "
        f"with {found.small} rows {found.share:.1%} of that; triad {found.triad / 1e9:,.0f} GB/s"
    )
    conclude(
        found.held,
        f"**Recorded.** {seen}: the ridge is at {most / found.triad:,.0f} FLOP/byte. A product so small does "
        "not fill the device, whatever its type.",
        f"{seen}.",
    )
    flash = pictures.attention(of_gpu)
    seen = (
        f"attention over {flash.tokens:,} tokens takes {1e3 * flash.written:.1f} ms in four operations and "
        f"{1e3 * flash.fused:.2f} ms in one kernel. Counted, that is {flash.written_intensity:.0f} and "
        f"{flash.fused_intensity:,.0f} FLOP/byte, and the ridge is at {flash.ridge:.0f}"
    )
    conclude(
        flash.held,
        f"**Recorded.** Forward, {seen}. The scores alone keep the memory busy for {1e3 * flash.least:.1f} ms. The longer "
        "the sequence, the further right the fused kernel gets (half the number of tokens, in 16 bits); with "
        "scores in memory it stays where it is.",
        f"Forward, {seen}.",
    )
    launch_of = pictures.launches(of_gpu)
    asked, in_graph = 1e6 * launch_of.asked, launch_of.in_graph
    if in_graph is None:
        conclude(
            False,
            "A kernel in a graph takes less than one that is launched alone.",
            f"a launch takes {asked:.1f} µs, and there is no graph.",
        )
    else:
        seen = (
            f"kernel that adds to one number takes {asked:.1f} µs, in a graph of {launch_of.kernels:,} such "
            f"{1e6 * in_graph:.2f} µs"
        )
        conclude(
            launch_of.held,
            f"**Recorded.** A {seen}. The host asks for kernels one by one, and in the time that one takes it "
            f"{launch_of.triad * asked / 1e12:.0f} MB go through the memory: a kernel that has less to do leaves "
            "the device waiting. A CUDA graph, or fusion, asks once for many.",
            f"a {seen}.",
        )

# %% [markdown]
# ### From the host to the GPU *(more)*
#
# A GPU's memory has a bandwidth of its own, but the images come from the host's, over PCI Express.
# Sixteen lanes of PCIe 5 carry 32 GT/s × 16 × 128/130 = 63 GB/s in each direction, where an H200's
# memory has 4,800. On a node with eight H200s
# [55 GB/s were measured](https://github.com/stas00/ml-engineering/tree/master/network#pcie) on each
# link. A step of 1,000 CIFAR-10 images is 3 MB as bytes, 0.06 ms, and 12 MB, 0.22 ms, as float32: so
# send bytes, and normalise on the GPU.
#
# The GPU copies by itself only from *pinned* memory, which Linux may not move or swap; other memory is
# copied to a pinned buffer first. `DataLoader(…, pin_memory=True)` pins in a thread of its own, and
# `images.to("cuda", non_blocking=True)` lets the host go on while the copy runs. Pinning takes time,
# too: `images.pin_memory().to("cuda", non_blocking=True)` in the step itself can take
# [twice as long](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html) as the plain
# copy.

# %% [markdown]
# ## 3. The parts of ten years *(more)*
#
# Processors that networks were trained on, and today's. Rates are peaks in TFLOP/s, a
# multiplication and an addition counted as two, on the part's fastest unit for that type. GB/s are
# those of its memory, and of its links in one direction. The last column is for 16 bits. "–" means
# that the row's sources do not give a figure, not that the part cannot do it. Each row has its
# source, not each figure (end of this section). AMD's parts run the same PyTorch scripts: its ROCm
# has RCCL in the place of NCCL, and
# [keeps the name](https://docs.pytorch.org/docs/stable/notes/hip.html) `torch.cuda`.

# %%
from hpml.modules.m02_hardware.lecture import hardware_picture, layer_on_parts, prices
from hpml.predict import hardware

print(hardware.table())

# %% [markdown]
# *Predict: from the P100 to the B200 FLOP/s for 16 bits grew 106 times. How many times as fast did
# memory become? And the links?*

# %%
figure = hardware_picture.flop_per_byte_picture(
    hardware.with_rates(),
    title="FLOP for each byte: in 16 bits hardly more since the H100, in 8 and 4 bits more",
)
publish_figure(
    "FLOP per byte by year",
    figure,
    "Peak FLOP/s for floats of 16 bits, and above, hollow, of the narrowest floats of the part, "
    "divided by the bandwidth of the memory (left) and of the links (right), by year. GC2's memory "
    "is on the chip.",
)

# %%
p100, v100, h100, b200 = (hardware.part(name) for name in ("P100", "V100", "H100", "B200"))
grew = hardware.growth(p100, b200)
conclude(
    grew.held,
    f"**Answer.** From the P100 ({p100.year}) to the B200 ({b200.year}) FLOP/s for 16 bits grew "
    f"{grew.compute:.0f} times, the memory's bandwidth {grew.memory:.0f} times, and the links' {grew.links:.0f} "
    f"times. In the time of one byte from memory, the B200 can do {b200.ridge():.0f} FLOP, the P100 "
    f"{p100.ridge():.0f}.",
    f"FLOP/s grew {grew.compute:.1f} times, memory {grew.memory:.1f} times, links {grew.links:.1f} times.",
)
shown = [p100, v100, h100, b200]
growth, narrow = hardware.steps(shown), hardware.steps(shown, hardware.FLOATS)
first, middle, last = (
    f"{memory:.1f} and {links:.1f} times"
    for memory, links in zip(growth.memory, growth.links, strict=True)
)
seen = (
    f"FLOP for each byte of memory, and of the links: from the P100 to the V100 {first}, from the V100 to the "
    f"H100 {middle}, from the H100 to the B200 {last}."
)
conclude(
    growth.held,
    f"{seen} The first step is the largest, and in 16 bits both have nearly kept up since the H100 ({h100.year}).",
    seen,
)
seen = ", ".join(
    f"{one.name} {one.ridge(hardware.FLOATS):,.0f} ({hardware.narrowest(one)})" for one in shown
)
numbers = ", ".join(f"{hardware.flops_per_number(one):.0f}" for one in shown)
conclude(
    narrow.grows,
    f"In its narrowest float each does more for a byte of memory than the one before: {seen} FLOP. But narrow "
    f"numbers are also fewer bytes. For each *number* that comes from memory it is {numbers} FLOP.",
    f"FLOP for each byte in the narrowest float: {seen}.",
)

# %% [markdown]
# The first step was a new unit, not more of the old ones: the V100's tensor cores.
#
# *Predict: on a V100 compute binds the first 3×3 convolution of the course's network, in 16 bits.
# What binds it on an H100?*

# %%
layer = layer_on_parts.first_convolution(batch=512)
figure = layer_on_parts.picture(
    layer, title="One layer: compute binds on the V100, memory on the H100"
)
publish_figure(
    "one layer on six parts",
    figure,
    f"{layer.name}, forward, in 16 bits. The longer bar of the two is the least time.",
)

# %%
found = layer_on_parts.bound(layer, "V100", "H100")
older, newer = found.older, found.newer
conclude(
    found.held,
    f"**Answer.** The layer does {layer.intensity:.0f} FLOP for each byte. The V100 can do {older.ridge:.0f} in "
    f"the time of one byte, so its units set the pace; the H100 can do {newer.ridge:.0f}, and waits for its "
    f"memory. Its peak is {newer.peak / older.peak:.1f} times as high, and the layer gets {found.faster:.1f} times "
    "as fast at best.",
    f"with {layer.intensity:.0f} FLOP per byte {older.binding(layer.intensity)} binds on the V100 and "
    f"{newer.binding(layer.intensity)} on the H100.",
)

# %% [markdown]
# So a program that was tuned for one machine has another bottleneck on the next. The `roofline`
# exercise is this calculation.
#
# ### Reading a data sheet *(more)*
#
# - **Sparsity.** NVIDIA and AMD also publish rates that are twice as high, for matrices in which two
#   of every four numbers are zero (NVIDIA, A100 white paper, *Fine-Grained Structured Sparsity*).
#   They are often the largest figures of a data sheet. The table has none of them.
# - **Both directions.** 900 GB/s of NVLink are 450 each way, and the table has 450.
# - **Which memory?** Graphcore's GC2 has 45 TB/s, and 3 FLOP per byte: its memory is 304 MiB of SRAM
#   on the chip. All others have gigabytes beside it.
# - **A CPU's peak** depends on its clock, which is lower while all cores use AVX-512.
#
# ### How large a batch hides the gradients? *(more)*
#
# In data parallel training each rank sends twice its gradients' bytes in a step (the ring of
# lecture 01), while it computes. Inside a node they go over the part's own links. Between nodes they
# go over ports of a network, today often InfiniBand with 400 Gbit/s for each GPU
# ([eight in a node](https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/nd-mi300x-v5-series)),
# and sometimes one for all eight. In a *fat tree* of switches all nodes can send at the same time
# (Leiserson 1985, Fat-trees, IEEE Transactions on Computers C-34, pages 892–901); many are thinned out
# further up.
#
# *Predict: with how many samples per rank and step does the computing take as long as sending the
# gradients, inside a node, and between nodes? Did that number grow?*

# %%
print(layer_on_parts.batches(["P100", "V100", "A100", "H100", "B200"]))

# %% [markdown]
# That is for layers that use each parameter once for a sample, as a transformer's do for a token:
# 6 FLOP for each parameter (Kaplan et al. 2020, arXiv:2001.08361, table 1), and 2 × 2 bytes on the
# links (Patarasuk and Yuan 2009). A ring leaves a node once and comes back once, so its eight ports
# carry together what each GPU sends: with eight ports the network is little slower than NVLink 4,
# and with one it needs a batch eight times as large. A convolution uses its parameters at each place
# of the image, and needs fewer samples. The number grew: faster parts need larger batches to be kept
# busy. No latency is in it (section 1 has that).
#
# ### Which part for which task? *(more)*
#
# | your bottleneck is | compare | and ask |
# |---|---|---|
# | compute | TFLOP/s in the type that you train in | has your framework a kernel for that type? (section 5) |
# | memory bandwidth | GB/s | can fewer bits or fusion move fewer bytes? |
# | memory size | GB | weights, gradients, optimizer states and activations: section 11 |
# | input | cores and local disk beside each GPU | images/s of your own loader: section 6 |
# | communication | link GB/s, ports for each GPU | do the ranks fit into one node? |
#
# Then let a short run decide: samples/s on each candidate, and its price for an hour. The fastest part
# is often not the one with the cheapest sample. Prices change every month; take today's.
#
# *Predict: of which part does a dollar rent the most FLOP/s, bandwidth, memory?*

# %%
listed = prices.prices()
print(prices.table(listed))

# %%
best, rate = prices.cheapest(listed), trained.result["runs"][0]["images_per_second"]
[of_h200] = [one.usd_per_hour for one in listed if one.part.name == "H200"]
seen = ", ".join(
    f"{what} of a {one.part.name}"
    for what, one in zip(("FLOP/s", "bandwidth", "memory"), best[1:], strict=True)
)
conclude(
    best.held,
    f"**Answer.** {seen}. Where bytes bind, the old part is cheap, if 16 GB are enough and float16 will do (V100 and "
    f"T4 have no bfloat16). A price per sample takes a run: on the recorded {trained.device['name']}, at "
    f"{rate:,.0f} images/s, a million images cost {1e8 * of_h200 / 3600 / rate:.2f} cents.",
    f"{seen}: one part is the cheapest for all.",
)

# %% [markdown]
# The provider matters more than the part: in November 2026 the same H100 cost 2.69 dollars an hour at
# one and 12.29 at another, with InfiniBand for each GPU
# ([data-receipts](https://github.com/datareceipts/data-receipts/tree/main/109-gpu-pricing), read
# 9 November 2026).

# %%
print(hardware.sources())

# %% [markdown]
# ## 4. Fewer bits
#
# Half the bits: half the bytes to move, twice the numbers in a register. Fewer bits also raise the
# peak, and the ridge moves right. Training uses *mixed precision*: products in 16 bits, weights and
# sums in float32 (Micikevicius et al. 2018, arXiv:1710.03740, section 3). `mixed_precision` is your
# exercise.
#
# ### Range and step *(more)*
#
# The *exponent* of a float sets how large and how small it can be, the *mantissa* how many digits it
# has (IEEE 754-2019, section 3.6).
#
# *Predict: float16 and bfloat16 both have 16 bits. Which can hold 100,000? Which can tell
# 1 + 1/512 from 1?*

# %% tags=["nbval-ignore-output"]
from hpml.measure import bf16_kernels
from hpml.modules.m02_hardware.lecture import (
    float16_gradients,
    mixed_precision,
    number_formats,
    number_formats_picture,
    precision,
)

large, near_one = 100_000.0, 1 + 1 / 512
brain, half = (
    torch.tensor([large, near_one]).to(dtype) for dtype in (torch.bfloat16, torch.float16)
)
figure = number_formats_picture.bits(title="Exponent bits set the range, mantissa bits the step")
publish_figure("number formats", figure, "Bits of float32, TF32, bfloat16, float16 and int8.")
print(brain, half, sep="\n")

# %% tags=["nbval-ignore-output"]
(brain_large, brain_near), (half_large, half_near) = brain.tolist(), half.tolist()
seen = (
    f"In bfloat16 {large:,.0f} becomes {brain_large:,.0f}, and {near_one:g} becomes {brain_near:g}. In float16 "
    f"{large:,.0f} becomes {half_large:,.0f} (the largest number is {number_formats.FLOAT16.largest:,.0f}), and "
    f"{near_one:g} stays {half_near:g}."
)
conclude(
    brain_large < half_large == float("inf") and brain_near == 1 < half_near,
    f"**Answer.** {seen}",
    seen,
)

# %% [markdown]
# ### Speed and error *(more)*
#
# *TF32* is float32 in memory, of which a GPU's tensor cores (since the A100) read ten bits of the
# mantissa; the sums are float32. PyTorch's convolutions use it, its matrix products only after
# `torch.set_float32_matmul_precision("high")`. *int8* has no exponent: a whole tensor shares one
# scale.
#
# *Predict: how many times as fast as float32 is each of them on this processor? Which has the
# largest error?*

# %% tags=["nbval-ignore-output"]
measured = precision.measure()
gains = precision.gains(measured)
figure = number_formats_picture.speed_and_error(measured, title=precision.title(gains))
publish_figure(
    "speed and error of number formats",
    figure,
    "A product of two 512 × 512 matrices and a 3×3 convolution, one thread. TF32's error is that of "
    "rounded inputs. The error is relative to float64.",
)

# %% tags=["nbval-ignore-output"]
parts = []
for name, gain in gains.items():
    has = f"has {' and '.join(gain.instructions)}" if gain.instructions else f"has no {gain.wanted}"
    if gain.instructions and not gain.faster:
        has += ", but the library has no kernel that gains by it"
    parts.append(f"{name} is {gain.pace} (this processor {has})")
seen = f"Against float32 (matrix product and convolution), {'; '.join(parts)}"
why = ""
if loops := precision.own_loops(measured):
    why += (
        f" oneDNN has no kernel for {' and '.join(loops)} on this processor, so PyTorch computes with a simple loop "
        "of its own: that takes the time, not the conversions."
    )
if slow := precision.slow_kernel(measured):
    why += (
        f" The float32 {slow.operation} is another library's, and reaches {slow.rate / 1e9:.0f} GFLOP/s where the "
        f"{slow.best} has {slow.best_rate / 1e9:.0f}: a slow kernel to be compared with. Best against best the "
        f"gains are {slow.gains['bfloat16']:.2g} (bfloat16) and {slow.gains['int8']:.2g} (int8)."
    )
conclude(
    all(gain.held for gain in gains.values()),
    f"**Answer.** {seen}.{why}",
    f"{seen}. That can be: the machine is busy, or another kind.",
)
error = {one.name: one.error for one in measured if one.operation == "matrix product"}
conclude(
    precision.follow_the_mantissa(error),
    f"The error follows the mantissa: {error['float16']:.2g} for float16, {error['TF32']:.2g} for TF32, "
    f"{error['bfloat16']:.2g} for bfloat16, which has three bits less. int8 has the largest, {error['int8']:.2g}: "
    "its 255 steps reach as far as the largest number.",
    f"errors: {error}.",
)

# %% [markdown]
# int8 is for inference: an int8 tensor cannot have a gradient. The product `a @ b` of two int8 tensors
# is int8 again, and overflows without an error (the fast kernel, `torch._int_mm`, returns int32).
#
# On GPUs there are floats of 8 bits (since the H100; E4M3 with three bits of mantissa, E5M2 with two)
# and of 4 (since the B200). They need a scale for each tensor, or for each block of numbers
# (Micikevicius et al. 2022, FP8 formats for deep learning, arXiv:2209.05433, sections 3 and 4).

# %% [markdown]
# ### Gradients too small for float16 *(more)*
#
# Gradients are small numbers: the loss is a mean over the batch, and each pixel of an activation
# has its own share. *Loss scaling* multiplies the loss by a constant, so that backward multiplies
# every gradient by it, and divides the weights' gradients again, in float32, before the update
# (Micikevicius et al. 2018, section 3.2). Too large a scale overflows to infinity: then the step is
# skipped (PyTorch's `GradScaler` does so, and halves its scale).
#
# float16 is slow on most CPUs, so only its rounding is imitated: everything is float32, but each
# layer's gradient is rounded to float16 before the layer below gets it.
#
# *Predict: which share of the gradients becomes 0 without scaling? Does the training notice?*

# %% tags=["nbval-ignore-output"]
SCALE = 2.0**16  # GradScaler's first one
runs = float16_gradients.by_scale()
figure = float16_gradients.picture(
    runs, SCALE, title="Between too small and too large there is much room for a loss scale"
)
publish_figure(
    "gradients in float16",
    figure,
    "Left: sizes of the gradients of all layers' outputs in the course's network, made small, after "
    "24 steps. Right: what training with float16 gradients reaches, by the loss scale.",
)

# %% tags=["nbval-ignore-output"]
found, wide, power = float16_gradients.scales(runs, SCALE), runs[None], float16_gradients.power
low, high = runs[found.low], runs[found.high]
seen = (
    f"{wide.lost():.1%} of the gradients become 0 in float16; with the loss times {power(SCALE)} it is "
    f"{wide.lost(SCALE):.1%}"
)
conclude(
    found.held,
    f"**Answer.** {seen}. In {len(wide.losses)} steps this network does not notice: with any scale from {' to '.join(map(power, found.good))} "
    f"the loss is within {found.apart:.3f} of float32's, {wide.loss:.3f}. Scaled by {power(found.low)}, "
    f"{wide.lost(found.low):.0%} are lost, and the loss is {low.loss:.2f} ({wide.losses[0]:.2f} in the first "
    f"step). Scaled by {power(found.high)}, they overflow: {high.skipped} of {len(wide.losses)} steps are skipped.",
    f"{seen}; losses by scale: "
    + ", ".join(f"{scale:g}: {run.loss:.2f}" for scale, run in runs.items() if scale),
)

# %% [markdown]
# A scale of 2^-12 shows what happens to a network whose gradients are 4096 times smaller. There are
# such: the detection network SSD of Micikevicius et al. (sections 3.2 and 4.2) does not train
# without scaling, and with a factor of 8 it has float32's accuracy. bfloat16 has the range of
# float32 and needs no scale
# (Kalamkar et al. 2019, A study of BFLOAT16, arXiv:1905.12322, abstract).
#
# ### What bfloat16 costs and saves *(more)*
#
# `torch.autocast` computes convolutions and matrix products in bfloat16, and leaves the weights,
# their update and the loss in float32. The course's training script does that with
# `--precision bf16`.
#
# *Predict: how much accuracy does it cost? How much time does it save?*

# %% tags=["nbval-ignore-output"]
why = bf16_kernels.missing()
if why:
    skip("three epochs in bfloat16", why)
else:
    runs = mixed_precision.compare()
    figure = mixed_precision.picture(
        runs, title="Three epochs, one seed: no accuracy is seen to be lost"
    )
    publish_figure(
        "float32 and bfloat16 in training",
        figure,
        "Test accuracy after each of three epochs over 3,000 images, against seconds of training on one "
        "thread; the same first weights, order and images. The network is the course's with fewer "
        f"channels ({', '.join(map(str, mixed_precision.WIDTHS))}), for the sake of time.",
    )

# %% tags=["nbval-ignore-output"]
if not why:
    wide, brain, tested = (
        runs["fp32"].test_accuracy,
        runs["bf16"].test_accuracy,
        mixed_precision.TEST_IMAGES,
    )
    seen = f"After {len(runs['fp32'].epochs)} epochs float32 has {wide:.1%}, bfloat16 {brain:.1%}"
    conclude(
        mixed_precision.same_accuracy(runs),
        f"**Answer.** {seen} of the test images right. With {tested:,} images chance alone makes two accuracies "
        f"differ by {(2 * wide * (1 - wide) / tested) ** 0.5:.1%} (one standard error), and this is one seed: a "
        f"loss of less than about {mixed_precision.APART:.0%} would not be seen.",
        f"{seen}.",
    )
    quickest = mixed_precision.quickest_epochs(runs)
    seen = f"The quickest epoch takes {quickest.float32:.1f} s in float32 and {quickest.bfloat16:.1f} s in bfloat16"
    if quickest.instruction:
        conclude(
            quickest.held,
            f"{seen}: {quickest.float32 / quickest.bfloat16:.1f} times as fast.",
            f"{seen}: the machine was busy.",
        )
    else:
        conclude(
            quickest.held,
            f"{seen}: without an instruction for bfloat16, each number is converted.",
            f"{seen}.",
        )
else:
    wide, brain = (
        next(run for run in trained.result["runs"] if run["precision"] == name)
        for name in ("fp32", "bf16")
    )
    first, second = wide["images_per_second"], brain["images_per_second"]
    seen = (
        f"One {trained.device['name']} trains {first:,.0f} images/s in float32 and {second:,.0f} in bfloat16, "
        f"{second / first:.2f} times as many. After {len(brain['epochs'])} epochs "
        f"{wide['epochs'][-1]['accuracy']:.1%} and {brain['epochs'][-1]['accuracy']:.1%} of the test images "
        "are right"
    )
    conclude(second > first, f"**Recorded.** {seen} (one seed).", f"{seen}.")

# %% [markdown]
# ## 5. Hardware without its library is a promise
#
# A processor's vector instructions work only where somebody wrote a kernel with them. PyTorch calls
# such kernels from libraries: oneDNN (once MKL-DNN) and MKL on CPUs, cuDNN and cuBLAS on NVIDIA's
# GPUs. It also has loops of its own. And a kernel wants its data in a certain order: *contiguous*
# images are stored channel by channel, *channels_last* ones pixel by pixel.
#
# *Predict: how much slower is the course's network without oneDNN? Which layers change with
# channels_last?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import engines, onednn_kernels, openmp_settings

measured = engines.compare(ResidualNetwork(), torch.randn(16, 3, 32, 32))
publish_figure(
    "one network by three engines",
    engines.picture(measured),
    "Forward and backward of every layer of the course's network, 16 images, one thread.",
)

# %% tags=["nbval-ignore-output"]
gains = engines.gains(measured)
off, on, last = gains.all
before, after = gains.of["convolution"][:2]
of_layout = sorted((layout - library, kind) for kind, (_, library, layout) in gains.of.items())
gained = [
    f"{kind} {gains.of[kind][1]:.0f} ms to {gains.of[kind][2]:.0f} ms"
    for _, kind in of_layout
    if round(gains.of[kind][1]) > round(gains.of[kind][2])
]
seen = (
    f"All layers together take {off:.0f} ms without oneDNN, {on:.0f} ms with it, and {last:.0f} ms with "
    "channels_last"
)
conclude(
    gains.held,
    f"**Answer.** {seen}: {off / last:.1f} times as fast on the same processor. oneDNN gains in convolutions: "
    f"{before:.0f} ms become {after:.0f} ms. The layout gains, too: {'; '.join(gained)}. Pooling gains the largest "
    "factor, as the channels of a pixel are neighbours and fill a register.",
    f"{seen}. Another processor, or another version, has other kernels.",
)

# %% [markdown]
# In PyTorch the layout is one line for the network and one for the images,
# `.to(memory_format=torch.channels_last)`, and nothing else changes: shapes stay [B, C, H, W].
#
# ### Which kernel was it? *(more)*
#
# As `caffe time` printed it for two engines (Jia et al. 2014, Caffe), layer by layer:

# %% tags=["nbval-ignore-output"]
print(engines.table(measured))

# %% [markdown]
# The name of the kernel is not in it. With `ONEDNN_VERBOSE=1` oneDNN prints a line for each that it
# runs.
#
# *Predict: does bfloat16 use other kernels?*

# %% tags=["nbval-ignore-output"]
found = onednn_kernels.kernels()
print(onednn_kernels.table(found))

# %% tags=["nbval-ignore-output"]
forward = onednn_kernels.forward(found)
if forward.bfloat16 == onednn_kernels.NONE:
    brain = "none of oneDNN's in bfloat16, for which it has no kernels on this processor"
else:
    brain = f"`{forward.bfloat16}` in bfloat16"
hidden = f"`{forward.avx2}` where a variable hides what came after AVX2"
if not forward.newer:
    hidden += " (nothing, on this processor)"
seen = f"Forward it is `{forward.float32}` in float32, {brain}, and {hidden}"
conclude(
    forward.held,
    f"**Answer.** {seen}. Behind the colon are the instructions that the kernel is made of.",
    f"{seen}.",
)

# %% [markdown]
# The variable was `ONEDNN_MAX_CPU_ISA=AVX2`. A library older than your processor does the same, and
# does not say so.

# %% [markdown]
# ### Threads, and who waits how *(more)*
#
# Kernels share their loops among OpenMP threads. Guides for CPUs recommend variables for them:
#
# | variable | what it sets | read by |
# |---|---|---|
# | `OMP_NUM_THREADS` | threads of each process | every OpenMP library |
# | `OMP_PROC_BIND`, `OMP_PLACES` | whether threads stay on their core, and on which | every OpenMP library |
# | `OMP_WAIT_POLICY` | waiting threads spin or sleep | every OpenMP library |
# | `GOMP_CPU_AFFINITY` | cores of the threads, in order | GNU's (libgomp) |
# | `KMP_AFFINITY`, `KMP_BLOCKTIME` | cores of the threads; milliseconds to spin before they sleep | Intel's (libiomp5) and LLVM's (libomp) |
# | `MKL_NUM_THREADS` | threads of MKL, and of PyTorch: it takes its own number from MKL's | MKL |
# | `MKL_DYNAMIC` | whether MKL may take fewer threads than it was given | MKL |
#
# They are read once, when the library is loaded: in a notebook it is too late, so each setting below
# has a process of its own.
#
# *Predict: which setting wins? Which change nothing?*

# %% tags=["nbval-ignore-output"]
tried = openmp_settings.compare()
print(tried)

# %% tags=["nbval-ignore-output"]
full, asked, forced = tried.trials[1:4]
best, alike = tried.best, ", ".join(f"`{setting}`" for setting in tried.alike)
seen = f"The quickest step has `{best.setting}`: {1e3 * best.step:.0f} ms"
if best.setting != full.setting:
    seen += f". `{full.setting}` alone has {1e3 * full.step:.0f} ms and {1e3 * tried.again.step:.0f} ms in two runs"
    if tried.differs_as_much:
        seen += ", which differ as much: here the number of threads is what counts"
conclude(
    tried.held,
    f"**Answer.** {seen}. That is {tried.gain:.1f} times as fast as with one thread.",
    f"{seen}. That would be {tried.gain:.2f} times as fast as one thread, on {tried.cores} cores: other programs "
    "use them too.",
)
both = " and ".join(f"{1e3 * one.step:.0f}" for one in (full, tried.again))
conclude(
    bool(alike),
    f"Within {openmp_settings.ALIKE - 1:.0%} of `{full.setting}`, whose two runs take {both} ms: {alike}.",
    f"Each setting differs from `{full.setting}`, whose two runs take {both} ms.",
)
seen = f"`{asked.setting}` gives PyTorch {asked.threads} threads on {tried.cores} cores"
if asked.threads < forced.threads:
    seen += ": it takes the number from MKL, which has no more than cores unless told so"
seen += f". `{forced.setting}` gives {forced.threads}"
conclude(
    forced.threads > tried.cores,
    f"**Answer.** {seen}, which take turns on the cores.",
    f"{seen}: no more than there are cores.",
)
names = " and ".join(f"`{path.rpartition('/')[2]}`" for path in tried.libraries) or "no library"
read, unread = (
    ", ".join(f"`{name}`" for name, there in tried.known.items() if there == wanted)
    for wanted in (True, False)
)
conclude(
    tried.known_library,
    f"PyTorch's OpenMP is {names} here. It contains the names {read}"
    + (f", and not {unread}: setting these has no effect." if unread else "."),
    f"OpenMP libraries: {names}.",
)

# %% [markdown]
# The column *threads* is what PyTorch reports. It takes the number from MKL when it starts
# (`aten/src/ATen/ParallelOpenMP.cpp`, `init_num_threads`), and `torch.set_num_threads` changes it.
# The default of PyTorch is one thread for each core; with several ranks on a node each rank must
# have its share (`torchrun` sets `OMP_NUM_THREADS=1`). To try the `KMP_` variables, install Intel's
# library (`pip install intel-openmp`) and load it first: `LD_PRELOAD=.../libiomp5.so`. TensorFlow
# has threads of its own: module 05 tries its variables.

# %% [markdown]
# ## 6. Ten thousand small files
#
# Most data sets come as a file for each image. Here are the same 10,000 images in six formats, each
# image as 3,073 bytes, uncompressed. The kernel counts the opens and reads of a pass over all:

# %% tags=["nbval-ignore-output"]
import tempfile
from pathlib import Path

from IPython.display import display

from hpml.data import load
from hpml.frameworks import tf_data_loading
from hpml.measure import loaders, loading, storage
from hpml.modules.m02_hardware.lecture import metadata_server, storage_picture
from hpml.predict.storage_epoch import SharedStorage

files = tempfile.TemporaryDirectory(prefix="hpml-02-")  # gone when the notebook's kernel ends
FOLDER = Path(files.name)
train = load().train
images, labels = train.images[::5], train.labels[::5]  # 10,000 from all over the training set
passes = storage.passes(images, labels, storage.places(FOLDER), keep=["disk"])
table = storage_picture.StorageTable(passes)
display(table)

# %% [markdown]
# Files take an open for each image; a packed format takes a few for all of them. On a network file
# system every open is a message. (`pack_files` is the exercise on this.)
#
# ### Where the reads come from *(more)*
#
# Each image is a label and its pixels. Look at the table again: why two reads for each file? And
# which format reads the most bytes, once the order is shuffled?

# %% tags=["nbval-ignore-output"]
small, hdf5 = table.cost("files", "shuffled"), table.cost("HDF5", "shuffled")
mapped, most = table.cost("memory map", "shuffled"), table.most_opens(without="files")
conclude(
    (small.opens, small.reads, mapped.reads) == (10_000, 20_000, 0) and most <= 10,
    f"**Answer.** Files take {small.opens:,} opens and {small.reads:,} reads: one read that returns the image, "
    f"and one that finds the end of the file. No other format takes more than {most} opens. The "
    f"memory map takes {mapped.reads} reads: its pages come by {mapped.faults:,} page faults.",
    f"files took {small.opens:,} opens and {small.reads:,} reads, the memory map {mapped.reads} "
    f"reads, the others up to {most} opens: the libraries here read in another way.",
)
conclude(
    hdf5.asked > 5 * images.nbytes,
    f"HDF5 reads the most when shuffled: {hdf5.asked / 1e6:,.0f} MB, {hdf5.asked / images.nbytes:.0f} "
    "times the images. For each row it fills a buffer of 64 KiB, the *sieve buffer*, which helps "
    "only if the next row is in it. Most of these bytes come from memory, not from the disk.",
    f"HDF5 read {hdf5.asked / 1e6:,.0f} MB for {images.nbytes / 1e6:,.0f} MB of images.",
)

# %% [markdown]
# ### How much faster a packed format is *(more)*
#
# *Predict: how much faster is a packed format than files? And does /dev/shm, which is memory, help
# where the disk's cache is warm?*

# %% tags=["nbval-ignore-output"]
title = f"Shuffled and warm, the memory map is {table.gains['memory map'].warm:.1f} times as fast as files"
publish_figure(
    "six formats of the same images",
    storage_picture.storage_picture(passes, title=title),
    f"10,000 images of 3,073 bytes read in order and shuffled, one pass each; {table.caches}.",
)

# %% tags=["nbval-ignore-output"]
others = table.gains
mapped = others.pop("memory map")
warm_alone = mapped.cold is None
times = "; ".join(
    f"{name} {gain.warm:.1f}" + ("" if warm_alone else f" and {gain.cold:.1f}")
    for name, gain in others.items()
)
slow = ", ".join(name for name, gain in others.items() if gain.warm < storage_picture.FASTER)
conclude(
    mapped.warm > 2,
    f"**Answer.** With a warm cache, a shuffled pass over the memory map is {mapped.warm:.1f} times as fast as "
    "over files; "
    + (
        "no cold cache was to be had here"
        if warm_alone
        else f"with a cold one, {mapped.cold:.1f} times"
    )
    + f". The other formats, in times{'' if warm_alone else ', warm and cold'}: {times}."
    + f" With a warm cache no faster than files, or hardly: {slow}." * bool(slow),
    f"the memory map was {mapped.warm:.1f} times as fast as files: other work had the cores.",
)
counts, in_memory = table.opens_and_reads("files", "shuffled"), table.against_memory("files")
apart = "; ".join(
    f"{order} {shm / warm:.2f} times as fast" for order, (warm, shm) in in_memory.items()
)
conclude(
    len(set(counts.values())) == 1,
    f"No place saves an open or a read: {' and '.join(counts)} have the same. `/dev/shm` saves the way to the disk, "
    f"and a warm cache has saved that already. Files in `/dev/shm`, one pass each: {apart or 'no disk to compare'}.",
    f"opens and reads differ: {counts}; `/dev/shm` against a warm cache: {apart}.",
)

# %% [markdown]
# A copy in `/dev/shm` helps where the cache does not keep your data, for instance on a network file
# system. *Staging* does that for a whole job: `sbatch slurm/02_staging.slurm` has one rank of each
# node copy the images to the node's own disk or memory, trains from there, and removes them, also
# when the job fails or is cancelled. The shared file system is read once, not once for each epoch.

# %% [markdown]
# ### Many nodes, one metadata server *(more)*
#
# On a cluster the data are on a parallel file system. **Lustre** keeps names, sizes and permissions
# on metadata servers (MDS), and contents on object storage targets (OST). A large file is cut into
# *stripes* (by default one OST for a file, and pieces of 4 MiB; `lfs setstripe` changes both), so
# that many OSTs send at the same time
# ([Lustre wiki](https://wiki.lustre.org/Lustre_Striping_Best_Practices)): `lfs setstripe -c 8 folder`
# spreads each new file in a folder over eight OSTs. A file of 3 KB has one stripe however many you ask
# for, and costs a round trip to the MDS and one to its OST. Since Lustre 2.11 a site can save the
# second: with *Data-on-MDT*, `lfs setstripe -E 1M -L mdt -E -1 folder`, the first megabyte of a file is
# kept beside its name ([Lustre manual](https://doc.lustre.org/lustre_manual.xhtml), "Data on MDT"). The
# open remains. **GPFS** (IBM
# Storage Scale) cuts all files into blocks over all disks and has no fixed metadata server: nodes
# hand out lock *tokens*, and one of the nodes that use a file keeps its metadata (Schmuck and Haskin,
# *GPFS: A Shared-Disk File System for Large Computing Clusters*, FAST 2002, sections 2 and 3). In
# both, an open is a message or several, and it waits for its answer.

# %%
publish_figure(
    "stripes and metadata",
    storage_picture.stripes_picture(
        title="A large file has every server at work; small ones queue for their names"
    ),
    "A client asks the metadata server where a file is, and the data servers for its stripes.",
)

# %% [markdown]
# How many opens per second are there? Dell measured a Lustre system of its own with mdtest: looking a
# file up (`stat`) went at about 2,000 per second from one thread, and at over 400,000 from 240;
# creating one at 500 and 15,000 (*Dell Storage for HPC with Intel Enterprise Edition for Lustre*,
# figure 12). All users share what the servers have.
#
# This machine has no Lustre, so its metadata server is **imitated by waiting**: an answer takes 1 ms,
# and there are at most 2,000 answers per second. Everything else is left out.
#
# *Predict: one client waits 1 ms for an answer and 1/2,000 s for its turn, and so opens about 670 files
# per second. How many do 2, 4 and 16 clients open?*

# %% tags=["nbval-ignore-output"]
model = SharedStorage(opens_per_second=2_000, latency=1e-3, bandwidth=1e9)
opened = {}
print("clients   opens/s   model")
for clients in (1, 2, 4, 16):
    server = metadata_server.PlayedServer(model.latency, model.opens_per_second)
    tries = [metadata_server.opens_per_second(server, clients, opens=400) for _ in range(3)]
    opened[clients] = max(tries)
    print(f"{clients:7} {opened[clients]:9,.0f} {model.rate(clients):7,.0f}")

# %% tags=["nbval-ignore-output"]
conclude(
    1.5 < opened[2] / opened[1] < 2.2 and opened[16] < 1.1 * model.opens_per_second,
    f"**Answer.** Two clients open {opened[2] / opened[1]:.1f} times as many files as one, 16 no more than "
    f"{opened[16]:,.0f} per second: more workers hide the latency, not the server's limit.",
    f"{opened[1]:,.0f}, {opened[2]:,.0f} and {opened[16]:,.0f} opens per second with 1, 2 and 16 "
    "clients: other work delayed the threads.",
)

# %% [markdown]
# With numbers of that kind, take ImageNet: 1.28 million files, about 140 GB, from 16 nodes with four
# workers each, and a system that gives 20,000 opens and 10 GB per second.
#
# *Predict: how long does an epoch's reading take, from files and from 1,000 packs?*

# %%
busy = SharedStorage(opens_per_second=20_000, latency=1e-3, bandwidth=10e9)
for what, count in (("files", 1_280_000), ("packs", 1_000)):
    print(f"{count:9,} {what}: {busy.epoch_seconds(count, 140e9, clients=64):3.0f} s")

# %% [markdown]
# 64 s, bound by opens, and 14 s, bound by bytes. The first binds every job on the system: the
# metadata servers are everybody's.

# %% [markdown]
# ### Which loader, and how many workers? *(more)*
#
# Now with everything that training needs: read, shift, mirror, normalise, make batches of 500. The
# course's loader gathers a batch from a memory map and augments it as a whole. PyTorch's
# `DataLoader` takes one image after the other from files, in as many processes as you ask for.
# tf.data reads the TFRecord file, in a process of its own; how such a pipeline is built is in module
# 04, and its exercise `tf_input_pipeline`.
#
# *Predict: how many workers are best on your cores? Can they catch up with the memory map?*

# %% tags=["nbval-ignore-output"]
import numpy as np

index, BATCH = np.arange(0, len(train), 5), 500
order = np.random.default_rng(0).permutation(len(index))
feeds = {
    f"DataLoader, workers: {workers}": loaders.data_loader(
        FOLDER / "disk/files", order, BATCH, workers
    )
    for workers in range(5)
}
feeds["the course's, no worker"] = loaders.Vectorised(train, index[order], BATCH)
with loaders.one_thread():
    rates = {name: loading.images_per_second(batches) for name, batches in feeds.items()}
del feeds  # their workers end
rates["tf.data"] = tf_data_loading.rate(FOLDER / "disk/TFRecord", len(index), BATCH)
for name, rate in rates.items():
    print(f"{name:24} {rate:10,.0f} images/s")

# %% tags=["nbval-ignore-output"]
one_by_one = {name: rate for name, rate in rates.items() if name.startswith("DataLoader")}
best = max(one_by_one, key=one_by_one.get)
ahead = rates["the course's, no worker"] / rates[best]
conclude(
    ahead > 2,
    f"**Answer.** Best here: {best}, {rates[best]:,.0f} images/s. The course's "
    f"loader makes {ahead:.1f} times as many in one thread: one gather for 500 images, not 500 "
    "opens and 500 times a dozen small operations. tf.data's pipeline, which also maps one image "
    f"after the other, makes {rates['tf.data']:,.0f}.",
    f"the course's loader was {ahead:.1f} times as fast as {best}: other work had the cores.",
)

# %% [markdown]
# Storage and loaders in one table: what reading alone takes in each format, and what all that training
# needs takes with each loader.

# %% tags=["nbval-ignore-output"]
print(table.beside_loaders(rates))

# %% [markdown]
# More workers than cores only share the cores. The same idea, columns in memory-mapped files, is
# behind HuggingFace's [datasets](https://huggingface.co/docs/datasets/about_arrow) (Arrow);
# [Petastorm](https://github.com/uber/petastorm) reads Parquet. `./hpml bench io` has the whole table
# as ratios to a plain read of the same bytes.

# %% [markdown]
# ## 7. Prefetching: from the sum to the maximum
#
# A step reads a batch, then computes on it: disk and processor wait for each other. **Prefetching**
# has another thread read the next batch meanwhile.
#
# Both are imitated by waiting here: 30 ms to read, 50 ms to compute.
#
# *Predict: how long does a step take without prefetching, and how long with one batch read ahead?
# And with four?*

# %% tags=["nbval-ignore-output"]
import time

from hpml.modules.m02_hardware.lecture import prefetched_training, prefetching

read, compute = (lambda _: time.sleep(0.03)), (lambda _: time.sleep(0.05))
played = {ahead: prefetching.steps(read, compute, batches=8, ahead=ahead) for ahead in (0, 1, 4)}
took = {ahead: 1e3 * prefetching.step_seconds(spans) for ahead, spans in played.items()}
publish_figure(
    "prefetching, imitated",
    prefetching.picture(
        {f"{ahead} read ahead: {took[ahead]:.0f} ms a step": played[ahead] for ahead in played},
        title="With a batch read ahead, a step takes the maximum, not the sum",
    ),
    "Eight steps imitated by waiting, 30 ms to read and 50 ms to compute.",
)

# %% tags=["nbval-ignore-output"]
conclude(
    took[0] > 75 and took[1] < 70 and took[4] < 70,
    f"**Answer.** {took[0]:.0f} ms without: the sum. {took[1]:.0f} ms with one batch read ahead: the maximum. "
    f"{took[4]:.0f} ms with four: no better, and three more batches in memory.",
    f"{took[0]:.0f}, {took[1]:.0f} and {took[4]:.0f} ms a step: other work delayed the threads.",
)

# %% [markdown]
# More than one helps only where reading is uneven, to ride out a slow batch. The queue must be
# bounded: a reader that is faster than the network would fill the memory.
#
# If reading takes longer than computing, prefetching hides the computing, and the step is as long as
# the reading: then read faster (section 6), or with more workers. `prefetch` is your exercise.
#
# ### Prefetching for real *(more)*
#
# For each batch, 250 small files of section 6 come from the disk, and a small network learns from
# them. One thread reads, one computes.
#
# *Predict: is what prefetching saves again the smaller of the two parts?*

# %% tags=["nbval-ignore-output"]
real = prefetched_training.train(FOLDER / "disk/files", batch_size=250)
files.cleanup()
alone, together = (1e3 * prefetching.step_seconds(spans) for spans in real.values())
publish_figure(
    "prefetching, for real",
    prefetching.picture(
        {f"{ahead} read ahead": spans for ahead, spans in real.items()},
        title=f"For real: {alone:.0f} ms a step become {together:.0f} ms",
    ),
    "Ten steps, each with 250 files from the disk and a step of a small network; the quickest of "
    "three runs each.",
)

# %% tags=["nbval-ignore-output"]
parts = {what: 1e3 * prefetching.part_seconds(real[0], what) for what in prefetching.ROWS}
shorter = min(parts.values())
seen = (
    f"{', '.join(f'{what} takes {ms:.0f} ms' for what, ms in parts.items())}; a step takes {alone:.0f} ms without "
    f"prefetching and {together:.0f} ms with it. It saves {alone - together:.0f} ms"
)
conclude(
    prefetched_training.saves_the_shorter(alone, together, parts),
    f"**Answer.** Yes, nearly: {seen}, and the shorter part takes {shorter:.0f} ms. (Each is a median, so they do "
    "not add up to the millisecond.)",
    f"{seen}, the shorter part takes {shorter:.0f} ms. That can be: the two threads have no two cores free, or "
    "they wait for the same memory.",
)

# %% [markdown]
# ## 8. Few large messages *(more)*
#
# A message has a price besides its bytes. On the α–β model of module 01 it takes α + *n* / *rate*.
# Below, two ranks behind a link of 1 Gbit/s sum 300 gradients of 2 kB, one by one; then they copy
# all of them into one buffer, and sum that. An all-reduce is several messages, and the library's own
# work (module 01): here α stands for all of it.
#
# *Predict: the 614 kB take 4.9 ms on this link. How long do the 300 all-reduces take, how long the
# one?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --link 1gbit --evidence fused
import torch
import torch.distributed as dist

from hpml.ranks import mark

gradients = [torch.ones(512) for _ in range(300)]
for _ in range(5):
    dist.barrier()
    mark("one by one begins")
    for one in gradients:
        dist.all_reduce(one)
    mark("one by one ends")
    dist.barrier()
    mark("one buffer begins")
    buffer = torch.cat(gradients)
    dist.all_reduce(buffer)
    torch._foreach_copy_(gradients, list(buffer.split(512)))
    mark("one buffer ends")

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import message_price

print(message_price.table(fused))

# %% tags=["nbval-ignore-output"]
price = message_price.per_message(fused)
conclude(
    price.held,
    f"**Answer.** The bytes are the same. {price.many} all-reduces take {price.slow * 1e3:.0f} ms, one takes "
    f"{price.quick * 1e3:.1f} ms: α is {price.alpha * 1e6:.0f} µs for each all-reduce here. In that time the link "
    f"carries {price.alpha * 125e6 / 1e3:.0f} kB.",
    f"{price.many} all-reduces took {price.slow * 1e3:.0f} ms, and one took {price.quick * 1e3:.0f} ms.",
)

# %% [markdown]
# Once a buffer is many times that size, a larger one gains little, and makes the first message wait
# for the last gradient. DDP's buckets have 25 MiB (the first 1 MiB), Horovod's buffers up to 128 MB.
# `fusion_buffer` is your exercise on this;
# module 05 has Horovod's buffers, cycle and timeline (section 4).

# %% [markdown]
# ## 9. The slowest sets the pace *(more)*
#
# Samples are not alike: images of several sizes, sentences of 16 or 500 tokens. Each rank gets as
# many samples as the others, and not as much work.
#
# First with real compute, two ranks on two cores: 64 images shared 32 and 32, and 48 and 16.
#
# *Predict: the second step takes ... times as long as the first?*

# %% tags=["nbval-ignore-output"]
# %%ranks 2 --evidence uneven
import torch
import torch.distributed as dist
from torch.nn import functional as F

from hpml.models import ResidualNetwork
from hpml.ranks import mark

net = ResidualNetwork()
for name, counts in 5 * [("even", (32, 32)), ("uneven", (48, 16))]:
    batch = torch.randn(counts[rank], 3, 32, 32)
    dist.barrier()
    mark(f"{name} begins")
    F.cross_entropy(net(batch), torch.zeros(len(batch), dtype=torch.long)).backward()
    dist.barrier()
    mark(f"{name} ends")

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import balance
from hpml.trace.repetition import messages_and_seconds

even, odd = (1e3 * messages_and_seconds(uneven, name)[-1] for name in ("even", "uneven"))
print(f"32 and 32 images: {even:.0f} ms\n48 and 16 images: {odd:.0f} ms")

# %% tags=["nbval-ignore-output"]
conclude(
    odd > 1.15 * even,
    f"**Answer.** {odd / even:.2f} times: {odd:.0f} ms in place of {even:.0f} ms. The whole work is the same, and "
    "48 images are 1.5 times 32. One rank waits for the other.",
    f"{odd:.0f} ms against {even:.0f} ms: with less than two free cores the ranks share one, and then only the sum "
    "counts.",
)

# %% [markdown]
# Now 32 sentences on four ranks. Four ranks on two cores would measure how cores are shared, so **the
# ranks only wait** here, 0.1 ms for each token, as if they computed. Shared by their number, each
# rank gets the next eight. Shared by cost, the longest sentence goes first, each to the rank that has
# the least so far (Graham 1969).
#
# *Predict: how much of the time do ranks idle if each has eight sentences?*

# %%
import random

draw = random.Random(19)
tokens = [round(16 * 32 ** draw.random() ** 2) for _ in range(32)]  # 16 to 512, mostly short
shares = {"by number": balance.by_count(tokens, 4), "by cost": balance.by_cost(tokens, 4)}
print(balance.table(shares))

# %%
# %%ranks 4 --evidence shared
from time import sleep

import torch.distributed as dist

from hpml.ranks import mark
from hpml.trace.computations import computing

for name, share in 3 * list(shares.items()):
    dist.barrier()
    mark(f"{name} begins")
    with computing("forward", len(share[rank])):
        sleep(1e-4 * sum(share[rank]))
    dist.barrier()
    mark(f"{name} ends")

# %% tags=["nbval-ignore-output"]
display(balance.picture(shared, list(shares)))

# %% tags=["nbval-ignore-output"]
waits = balance.waits(shared, list(shares))
by_number, by_cost = (balance.imbalance(share) for share in shares.values())
conclude(
    waits.held,
    f"**Answer.** {waits.before:.0%}. The slowest rank has {by_number:.2f} times the mean, and the step takes "
    f"{waits.slow * 1e3:.0f} ms. Shared by cost it has {by_cost:.2f} times the mean, and the step takes "
    f"{waits.quick * 1e3:.0f} ms.",
    f"ranks idled {waits.before:.0%} of the time by number, {waits.after:.0%} by cost: where others use the cores, "
    "pauses end late.",
)

# %% [markdown]
# The numbers in the boxes are how many sentences a rank has. Two things to mind. Ranks now have
# *different numbers* of samples: the mean of the ranks' means is not the mean (`sync_sgd` in module
# 01; weigh each by its number). And within a rank, a batch is padded to its longest sentence: put
# sentences of like length into a batch, and the padding goes, too. A rank that is slow every time,
# whatever it gets, is a straggler: module 01, section 5.

# %% [markdown]
# ## 10. Where a rank runs *(more)*
#
# A large node is several machines in one box. A *socket* holds one processor; it has one or several
# *NUMA nodes* (non-uniform memory access), each with cores and the memory next to them; a *core* has
# one or two *hardware threads*, which share its arithmetic units. Linux numbers the hardware threads
# and calls each a *CPU*. A rank may run on all CPUs until somebody *binds* it to some; its threads
# may then use just these. This is your node:

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import lstopo, placement, srun_binding

lstopo.draw_node()

# %% [markdown]
# Linux places memory on the NUMA node of the CPU that writes to it first (*first touch*; the kernel's
# NUMA memory policy calls it local allocation). A rank that moves to the other socket afterwards
# leaves its memory behind, and every access crosses the link between the sockets. Bind it, and it
# stays beside its memory and its caches.
#
# *Predict: two ranks with one thread each. How long do they wait for a CPU if nobody binds them, and
# how long if both are bound to the same CPU? Does anything warn you?*

# %% tags=["nbval-ignore-output"]
times = placement.measure(placement.placements()) if placement.available() else None
if times is not None:
    publish_figure(
        "ranks that share a CPU",
        placement.picture(times),
        "Seconds in which each of two ranks runs, and in which it waits for a CPU, as Linux counts "
        "them in /proc/PID/schedstat.",
    )
else:
    skip("two ranks on one CPU", "this process may use one CPU alone")

# %% tags=["nbval-ignore-output"]
if times is not None:
    waits = placement.waits(times)
    seen = f"{waits.together:.0%} of the time, with a CPU each {waits.apart:.0%}, and left to Linux {waits.free:.0%}"
    conclude(
        waits.held,
        f"**Answer.** Two ranks on one CPU waited for it {seen}. On one CPU each ran for {waits.ran:.2f} s and "
        f"waited {waits.waited:.2f} s: a rank has a part of a CPU, and nothing fails. No error, no warning, and "
        "`top` shows the CPU at 100 %.",
        f"two ranks on one CPU waited {seen}. Other programs on this machine wait for its CPUs as well.",
    )

# %% [markdown]
# Two ranks come to share a CPU sooner than one thinks. Two `mpirun` on one node each bind their first
# rank to core 0, for neither knows of the other. Four ranks with `OMP_NUM_THREADS` left alone start
# as many threads each as there are CPUs. A thread inherits its rank's binding: bound to one core,
# eight threads take turns on it.

# %% [markdown]
# ### The same request, with and without hyperthreads
#
# *Predict: a node has 2 × 64 cores with 2 hardware threads each. You ask for two ranks with
# `--cpus-per-task=64`. How many cores does each get?*

# %%
figure = srun_binding.picture(
    srun_binding.CORES,
    srun_binding.HARDWARE_THREADS,
    title="Same ranks, same --cpus-per-task: one option decides whether half of the node is idle",
)
publish_figure(
    "what srun binds",
    figure,
    "A node of 2 × 64 cores; each field is a core, with the numbers of its two CPUs. Recorded from "
    "SLURM 22.05.",
)

# %%
asked, right = srun_binding.HARDWARE_THREADS, srun_binding.CORES
conclude(
    asked.cores[0] < right.cores[0],
    f"**Answer.** {asked.cores[0]}, with both hardware threads of each: SLURM counts CPUs, and here a CPU is a "
    f"hardware thread. {srun_binding.idle(asked)} of {len(srun_binding.NODE.cores)} cores stay idle. With "
    f"`--hint=nomultithread` a rank gets one CPU of each core, and each has {right.cores[0]} cores.",
    "the record has as many cores for both.",
)

# %% [markdown]
# A second hardware thread fills the gaps while the first waits for memory. A matrix product hardly
# waits: both would share the same multipliers. So give a rank that computes one CPU of each core.
#
# Since SLURM 22.05 `srun` does not take `--cpus-per-task` from `sbatch`: give it to `srun` again, or
# set `SRUN_CPUS_PER_TASK` ([sbatch](https://slurm.schedmd.com/sbatch.html), `--cpus-per-task`). Else
# each rank has one CPU, and all its threads share it.
#
# `--distribution` says how ranks are dealt out: `block:block` fills the first socket before the
# second; the default, `block:cyclic`, takes the sockets in turn.

# %% [markdown]
# ### How to bind
#
# | with | for example | each rank may run on |
# |---|---|---|
# | `taskset` | `taskset -c 0-63 python …` | these CPUs; it says nothing of memory |
# | `numactl` | `numactl --cpunodebind=0 --membind=0 python …` | the CPUs of NUMA node 0, and all its memory is there |
# | `srun` | `--cpus-per-task=64 --hint=nomultithread` | 64 cores that SLURM chooses |
# | `srun` | `--cpu-bind=mask_cpu:0xff,0xff00` | rank 0 on CPUs 0 to 7, rank 1 on 8 to 15; only if the step has the whole node |
# | `mpirun` (Open MPI 4) | `--map-by socket:PE=64 --bind-to core` | 64 cores of a socket, sockets in turn |
# | `torchrun` | `--numa-binding=node` | the NUMA node of its GPU; needs GPUs; also `socket`, `exclusive`, `core-complex` |
#
# Ask what became of it: `srun --cpu-bind=verbose`, `mpirun --report-bindings`, or from inside,
# `os.sched_getaffinity(0)`. `torchrun` without the option binds nothing. What `mpirun` binds on this
# machine is in module 05.
#
# `lstopo` draws the machine that you are on (package `hwloc` of Debian and Ubuntu; `module load hwloc`
# on many clusters), `numactl --hardware` and `lscpu --extended` print it. The picture above is
# from `lstopo` where that is installed; else the library draws it, from the same files in `/sys`.
#
# **What to do on a cluster.** One rank for each GPU, on the GPU's NUMA node; without GPUs, one rank
# for each NUMA node. As many threads as the rank has cores. A core left to the system and to data
# loading, if the site does not keep one itself. `binding_plan` is your exercise; then
# `sbatch slurm/02_binding.slurm` shows on the cluster who runs where.
#
# *Sources: srun(1) of SLURM 22.05, `--cpu-bind`, `--hint`, `--distribution`; taskset(1);
# numactl(8); mpirun(1) of Open MPI 4.1, "Mapping, Ranking, and Binding"; `torch/numa/binding.py` of
# PyTorch 2.13; NUMA memory policy, Linux kernel documentation, "Memory Policy".*

# %% [markdown]
# ## 11. What training takes *(more)*
#
# *Out of memory* is the one bottleneck that ends the program. What is in the memory at the peak of a
# training step?
#
# | | bytes, in float32 |
# |---|---|
# | parameters | 4 for each |
# | gradients | 4 for each parameter that is trained |
# | optimizer states | 0 with SGD, 4 with momentum, 8 with Adam, for each parameter that is trained |
# | activations: what layers keep for `backward` | grow with the batch |
# | other tensors: images, gradients on their way, what an operator needs while it runs | some grow with the batch |
# | workspace: what libraries and Python take besides tensors | a few MB here |
#
# We train three networks with Adam, with three batches each. Every tensor is counted as it is made
# and freed, and the kernel counts the memory of the process.
#
# *Predict: of which network do activations take more than half of the memory at a batch of 96?*

# %% tags=["nbval-ignore-output"]
from hpml.measure import training_memory
from hpml.predict.training_memory import (
    activations,
    bars,
    predicted,
    last_peaks_in_the_update,
    line,
)

taken = training_memory.measure()
figure = bars(taken, title="Activations grow with the batch; 16 bytes for each parameter do not")
publish_figure("what training takes", figure, "Peak memory of a step with Adam, by kind.")

# %% tags=["nbval-ignore-output"]
found, at_peak = activations(taken), taken["MLP"][-1].by_kind
share = ", ".join(f"{part:.0%} of the {name}'s" for name, part in found.share.items())
batch = taken["MLP"][-1].batch
conclude(
    found.held,
    f"**Answer.** With a batch of {batch}, activations are {share} peak. One image more takes "
    f"{found.each['residual network'] / 1e6:.2f} MB in the residual "
    f"network, which keeps what its layers put out at each place of the image, and {found.each['MLP'] / 1e6:.2f} "
    "MB in the MLP, whose layers put out one number for thousands of weights.",
    f"with a batch of {batch}, activations were {share} peak.",
)
conclude(
    last_peaks_in_the_update(taken),
    "When the MLP needs most, its activations are gone: that is in the optimizer's step, where Adam works with "
    f"{at_peak['other'] / 1e6:.0f} MB of other tensors. The other two need most while their activations are "
    "there, between `forward` and `backward`.",
    f"at the MLP's peak there were {at_peak['activations'] / 1e6:.1f} MB of activations.",
)

# %% [markdown]
# The dashed line is 16 bytes for each parameter. The whole is a line over the batch, nearly.
#
# So the largest batch can be predicted: the peaks of two small batches make a line, *fixed + each ×
# batch*. Say there were 150 MB. With all 96 images:

# %% tags=["nbval-ignore-output", "raises-exception"]
# %%ranks 1 --memory 150mb --evidence too_many
from hpml.measure.training_memory import train

train("residual network", batch=96)

# %% [markdown]
# *Predict: from the measured line, what is the largest batch in 150 MB?* Two batches are tried for
# real, one a tenth smaller than the line's and one a tenth larger. (Bisecting between them would find
# the last image that fits. Each try is a training of its own, and takes seconds.)

# %% tags=["nbval-ignore-output"]
two = taken["residual network"][:2]
most = predicted(two, 150e6)
below, above = int(0.9 * most), int(1.1 * most) + 1
fit = {n: training_memory.fits("residual network", n, 150_000_000) for n in (below, above)}
for n, fitted in fit.items():
    print(f"{n} images: {'fit' if fitted else 'do not fit'}")

# %% tags=["nbval-ignore-output"]
fixed, each = (bytes_ / 1e6 for bytes_ in line(two))
tried = " and ".join(f"{n} {'fitted' if fitted else 'did not'}" for n, fitted in fit.items())
conclude(
    fit[below] and not fit[above],
    f"**Answer.** {fixed:.0f} MB + {each:.2f} MB × batch, from the batches of {two[0].batch} and {two[1].batch}: "
    f"{most} images. Tried with a real limit of 150 MB: {below} images fit, and {above} do not.",
    f"predicted were {most} images; {tried}.",
)

# %% [markdown]
# On a GPU it is the same line, with other numbers: `torch.cuda.max_memory_allocated()` at two small
# batches, and you know. What if not even one image fits? Gradient accumulation keeps the batch and
# takes micro-batches; checkpointing, moving out and sharding are module 07. `memory_budget` is your
# exercise on this section: the same figures before anything was trained.

# %% [markdown]
# ## 12. Whose fault is it?
#
# A step of the course's network, sound, and then slowed in five ways: by the **loader**, the number of
# **threads**, the **precision**, the memory **layout** of the images, and a **neighbour**, another
# program on the same core.
#
# | column | how it is measured |
# |---|---|
# | load … step | seconds of a phase, by the clock |
# | cores | cores in use on average: processor seconds for each second |
# | waiting | time for which a thread could run and had no core (the kernel's schedstat) |
# | bytes | of a number that reaches a convolution |
# | stride | how far apart the channels of one pixel are in memory, in numbers |

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import slowed_step

trial = slowed_step.measure()
print(trial)

# %% [markdown]
# *Predict: which fault has A, B, C, D, E? Compare each row with the sound step.*

# %% tags=["nbval-ignore-output"]
from IPython.display import Markdown

display(Markdown(trial.answers))

# %% tags=["nbval-ignore-output"]
found = trial.found
named = ", ".join(f"{letter} is the *{name}*" for letter, name in found.names.items())
worst = max(found.times, key=found.times.get)
why = ""
if found.beside is not None:
    why = (
        " A neighbour takes half of one core, and that alone would be 2 times at most. But threads wait for each "
        "other at the end of each parallel loop, and a thread whose core is taken gets it back after "
        f"{1e3 * found.beside.seconds:.1f} ms on average, {found.beside.waits:.0f} times in a step."
    )
conclude(
    found.held,
    f"**Answer.** The counters name all {len(found.names)}: {named}. The *{worst}* costs most here, "
    f"{found.times[worst]:.1f} times the sound step.{why}"
    + " The *layout* costs nothing clear on this processor."
    * (found.slower < len(found.names)),
    f"the counters named {found.right} of {len(found.names)} faults, and {found.slower} of them made the step "
    "clearly slower. That can be: other programs use these cores too.",
)

# %% [markdown]
# On the clock only loading is a phase of its own; the other four faults are inside *forward* and
# *backward*. So look in this order:
#
# 1. **Look**: dtype, memory format, threads, binding. It costs a print.
# 2. **Count**: processor time against the clock, waiting, bytes. It costs a run.
# 3. **Trace**: a profiler, when the first two do not say it (module 03).

# %% [markdown]
# ## What to take home
#
# 1. At any moment one of five sets the pace; to improve another one gains nothing, so measure before
#    you buy or rewrite.
# 2. FLOPs over bytes, beside the ridge of the machine, say whether a layer can use faster
#    arithmetic at all, before you have timed anything.
# 3. Hardware without the right library, layout, precision, thread count and place is a promise, and
#    each of these can be checked in a minute.

# %% [markdown]
# ### Where to read on *(more)*
#
# - Williams, Waterman, Patterson 2009, *Roofline: an insightful visual performance model for
#   multicore architectures*, Communications of the ACM 52(4), pages 65–76: the model and its ceilings.
# - McCalpin 1995, *Memory bandwidth and machine balance in current high performance computers*;
#   what is counted, and how: https://www.cs.virginia.edu/stream/ref.html
# - Ivanov et al. 2021, *Data movement is all you need: a case study on optimizing transformers*,
#   arXiv:2007.00072: normalisations and elementwise layers on a GPU's roofline.
# - Mohan et al. 2021, *Analyzing and mitigating data stalls in DNN training*, PVLDB 14(5), pages
#   771–784: a step that waits for storage, and one that waits for decoding, told apart.

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/02_hardware.ipynb) of this module: first `roofline`, `prefetch`; for the evening `memory_budget`, `pack_files`, `fusion_buffer`, `binding_plan`, `mixed_precision`.
