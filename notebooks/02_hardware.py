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
# of your training, and the others wait for it. Which one is yours, and what does it cost to find out?
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
from hpml.ranks import launch

# %% [markdown]
# ## 1. Which one is mine?
#
# A training step asks five things of a machine, and each can be the one that the others wait for:
#
# - **compute**: multiplications and additions, FLOP/s
# - **memory bandwidth**: bytes between memory and the cores, byte/s
# - **memory size**: weights, gradients, optimizer states and activations have to fit, bytes
# - **input**: images from storage, decoded and augmented in time, images/s
# - **communication**: gradients to the other ranks and back, byte/s
#
# To improve one that is not the bottleneck gains nothing. So measure first. Below, two ranks train
# the course's network, each on 64 images a step.
#
# *Predict: what takes the most of a step over a link of 1 Gbit/s: loading, forward and backward, the
# update, or communicating? And over 100 Mbit/s?*


# %%
def training_steps():
    """Five steps of the course's network, 64 images each on this rank."""
    import torch.distributed as dist

    from hpml.data import augment, batches, load, normalize
    from hpml.ranks import mark

    model, loss_of = ResidualNetwork(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.85)
    feed = batches(load().train, range(5 * 64), batch_size=64)
    for _ in range(5):
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
from hpml.modules.m02_hardware.lecture import bottleneck
from hpml.trace.repetition import phases

marks = ["load", "forward", "backward", "communicate", "update", "end"]
runs = {link: launch(training_steps, 2, link=link) for link in ("1gbit", "100mbit")}
steps = {link: phases(run, marks) for link, run in runs.items()}
weights = sum(p.numel() for p in ResidualNetwork().parameters() if p.requires_grad)
figure = bottleneck.picture(steps, gradients=4 * weights)
if no_link := runs["1gbit"].no_link:
    skip("links of a given rate", no_link)
else:
    publish_figure(
        "where a training step spends its time",
        figure,
        "The quickest of five steps on two ranks of one thread each, over two links. The black line is "
        "the lower bound for the gradients' bytes at the rate of the link.",
    )
    conclude(*bottleneck.finding(steps["1gbit"], steps["100mbit"]))
print(bottleneck.memory(runs["1gbit"]))

# %% [markdown]
# Memory size has no seconds: nothing is slow until memory is full, and then the program ends
# (section 11). *Forward and backward* is not an answer yet: is it the arithmetic, or is it the
# memory?

# %% [markdown]
# ## 2. This machine's roofline
#
# What a core computes on comes from a cache, and what is in no cache comes from memory. This is your
# node. A *socket* holds one processor, a *NUMA node* is cores with the memory next to them, and a
# *CPU* is what Linux may run a thread on:

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture.lstopo import draw_node

draw_node()

# %% [markdown]
# *Predict: how much faster is a cache than memory?* The cell reads, copies, and computes
# *a* = *b* + 3*c* (STREAM's *triad*; McCalpin 1995), on arrays that grow out of one cache after
# another.

# %% tags=["nbval-ignore-output"]
from hpml.measure.bandwidth import data_caches, sweep, working_sets
from hpml.modules.m02_hardware.lecture import machine_roofline
from hpml.modules.m02_hardware.lecture.roofline import picture, sweep_picture

sweeps = {kernel: sweep(kernel, working_sets()) for kernel in ("read", "copy", "triad")}
figure = sweep_picture(sweeps, data_caches(), title="Each cache that overflows is a step down")
publish_figure(
    "bandwidth over the working set",
    figure,
    "One core, float32. Dotted lines: the sizes of the caches (L1 is too small to be timed here). "
    "Counted are the bytes that the program asks to read and to write.",
)
conclude(*machine_roofline.cache_finding(sweeps))

# %% [markdown]
# *Intensity* is work per byte: the FLOPs of a layer over the bytes it has to move. With it, the
# *roofline* (Williams et al. 2009) says how fast a layer can be at best:
#
# > speed = min(peak, bandwidth × intensity)
#
# The two are equal at the *ridge*, peak over bandwidth. Left of it memory is the limit, and faster
# arithmetic is no help. Right of it, it is the other way round.
#
# *Predict: a convolution, a linear layer with 1024 rows and with one, attention, batch
# normalisation, ReLU, Adam's step: which limit binds each?*

# %% tags=["nbval-ignore-output"]
from hpml.models.vision_transformer import Attention

images, tokens = torch.randn(256, 128, 16, 16), torch.randn(64, 64, 192)
layers = {
    "3×3 convolution": (nn.Conv2d(128, 128, 3, padding=1), images),
    "linear, 1024 rows": (nn.Linear(1024, 1024), torch.randn(1024, 1024)),
    "linear, 1 row": (nn.Linear(4096, 4096), torch.randn(1, 4096)),
    "attention": (Attention(192, heads=12), tokens),
    "batch normalisation": (nn.BatchNorm2d(128), images),
    "ReLU": (nn.ReLU(), images),
}
roofs, works = machine_roofline.roofs_and_works(layers, adam=20_000_000)
figure = picture(roofs, works, title="Left of the ridge, faster arithmetic is no help")
publish_figure(
    "this machine's roofline",
    figure,
    "Lines: at best, by type and number of cores, measured with matrix products, convolutions, and "
    "arrays that no cache holds, before the layers and after them. Points: layers in float32 on all "
    "cores, forward and backward. FLOPs of convolutions, matrix products and attention are as "
    "FlopCounterMode counts them; of the others, which it does not count, by hand: one for each "
    "number written (too low for a normalisation), 14 for each of Adam's parameters. Bytes: all "
    "that has to be read and written, each once.",
)
all_cores = machine_roofline.whole(roofs)
print(machine_roofline.binding_table(works, all_cores))
conclude(*machine_roofline.finding(works, all_cores))

# %% [markdown]
# One thing that holds a layer back is not in the picture: where its tensors come from.
#
# *Predict: ReLU's output of 34 MB is freed after each step. Does it matter whether the process keeps
# that memory or returns it?*

# %% tags=["nbval-ignore-output"]
conclude(*machine_roofline.fresh_pages("ReLU", *layers["ReLU"]))

# %% [markdown]
# Better code can lift a point that is below its roof (section 5). To get further right, a layer has
# to move fewer bytes: fuse it with its neighbour, use fewer bits, or take more rows at a time, so
# that each weight that is read is used more often. (A point *above* the memory roof had its data in
# a cache.) Fewer bits also raise the peak, and the ridge moves right. (`roofline` is your exercise.)
#
# ### The same on a GPU *(more)*
#
# Products of matrices from 256 to 8192 rows by number type; attention and GELU, operation by operation
# and as one kernel; and what it costs to launch a kernel: what a GPU showed.

# %% tags=["nbval-ignore-output"]
from hpml.errors import UserError
from hpml.record.kept import recorded
from hpml.record.pictures import launches, products, roofline_picture

try:
    of_gpu = recorded("roofline")
except UserError as why:
    skip("a GPU's roofline", str(why))
else:
    publish_figure(
        "a GPU's roofline",
        roofline_picture(of_gpu, title="A GPU: products by number type, and fusion"),
        f"{of_gpu.origin}. Left: products by number type. Right: seconds of forward.",
    )
    conclude(*products(of_gpu))
    conclude(*launches(of_gpu))

# %% [markdown]
# ## 3. The parts of ten years
#
# Processors that networks were trained on, and today's. Rates are peaks in TFLOP/s, a
# multiplication and an addition counted as two, on the part's fastest unit for that type. GB/s are
# those of its memory, and of its links in one direction. The last column is for 16 bits. "–" means
# that the row's sources do not give a figure, not that the part cannot do it. Each row has its
# source, not each figure (end of this section).

# %%
from hpml.predict import hardware
from hpml.publish import conclude, publish_figure

print(hardware.table())

# %% [markdown]
# *Predict: from the P100 to the B200 FLOP/s for 16 bits grew 106 times. How many times as fast did
# memory become? And the links?*

# %%
from hpml.modules.m02_hardware.lecture.hardware_picture import flop_per_byte_picture

figure = flop_per_byte_picture(
    hardware.with_rates(),
    title="FLOP for each byte: the V100 was the largest step; hardly any since the H100",
)
publish_figure(
    "FLOP per byte by year",
    figure,
    "Peak FLOP/s for floats of 16 bits, divided by the bandwidth of the memory (left) and of the "
    "links (right), by year. GC2's memory is on the chip.",
)
conclude(*hardware.growth("P100", "B200"))
conclude(*hardware.steps("P100", "V100", "H100", "B200"))

# %% [markdown]
# The first step was a new unit, not more of the old ones: the V100's tensor cores.
#
# *Predict: on a V100 compute binds the first 3×3 convolution of the course's network, in 16 bits.
# What binds it on an H100?*

# %%
from hpml.modules.m02_hardware.lecture import layer_on_parts

layer = layer_on_parts.first_convolution(batch=512)
figure = layer_on_parts.picture(
    layer, title="One layer: compute binds on the V100, memory on the H100"
)
publish_figure(
    "one layer on six parts",
    figure,
    f"{layer.name}, forward, in 16 bits. The longer bar of the two is the least time.",
)
conclude(*layer_on_parts.finding(layer, "V100", "H100"))

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
# In data parallel training each rank sends twice its gradients' bytes in a step (the ring of
# lecture 01), while it computes.
#
# *Predict: with how many samples per rank and step does the computing take as long as sending the
# gradients? Did that number grow?*

# %%
print(layer_on_parts.batches(["P100", "V100", "A100", "H100", "B200"]))

# %% [markdown]
# That is for layers that use each parameter once for a sample, as a transformer's do for a token:
# 6 FLOP for each parameter (Kaplan et al. 2020, arXiv:2001.08361, table 1), and 2 × 2 bytes on the
# links (Patarasuk and Yuan 2009). A convolution uses its parameters at each place of the image, and
# needs fewer samples. The number grew: faster parts need larger batches to be kept busy.

# %%
print(hardware.sources())

# %% [markdown]
# ## 4. Fewer bits
#
# Half the bits: half the bytes to move, twice the numbers in a register. The *exponent* of a float
# sets how large and how small it can be, the *mantissa* how many digits it has (IEEE 754-2019,
# section 3.6).
#
# *Predict: float16 and bfloat16 both have 16 bits. Which can hold 100,000? Which can tell
# 1 + 1/512 from 1?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import number_formats, number_formats_picture

figure = number_formats_picture.bits(title="Exponent bits set the range, mantissa bits the step")
publish_figure("number formats", figure, "Bits of float32, TF32, bfloat16, float16 and int8.")
conclude(*number_formats.sixteen_bits(100_000.0, 1 + 1 / 512))

# %% [markdown]
# *TF32* is float32 in memory, of which a GPU's tensor cores (since the A100) read ten bits of the
# mantissa; the sums are float32. PyTorch's convolutions use it, its matrix products only after
# `torch.set_float32_matmul_precision("high")`. *int8* has no exponent: a whole tensor shares one
# scale.
#
# *Predict: how many times as fast as float32 is each of them on this processor? Which has the
# largest error?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import precision

measured = precision.measure()
figure = number_formats_picture.speed_and_error(
    measured, title="Fewer bits are faster where the processor has an instruction for them"
)
publish_figure(
    "speed and error of number formats",
    figure,
    "A product of two 512 × 512 matrices and a 3×3 convolution, one thread. TF32's error is that of "
    "rounded inputs. The error is relative to float64.",
)
conclude(*precision.speed(measured))
conclude(*precision.error(measured))

# %% [markdown]
# int8 is for inference: an int8 tensor cannot have a gradient, and of two of them `a @ b` returns
# sums that overflow without an error (the fast kernel is `torch._int_mm`). Training uses *mixed
# precision*: products in 16 bits, weights and sums in float32 (Micikevicius et al. 2018,
# arXiv:1710.03740, section 3). `mixed_precision` is your exercise.

# %% [markdown]
# ### Gradients too small for float16 *(more)*
#
# Gradients are small numbers: the loss is a mean over the batch, and each pixel of an activation
# has its own share. *Loss scaling* multiplies the loss by a constant, so that backward multiplies
# every gradient by it, and divides the weights' gradients again, in float32, before the update
# (Micikevicius et al. 2018, section 3.2). Too large a scale overflows to infinity: then the step is
# skipped (PyTorch's `GradScaler` does so, and halves its scale).
#
# float16 is slow on most CPUs, so it is played: everything is float32, but each layer's gradient is
# rounded to float16 before the layer below gets it.
#
# *Predict: which share of the gradients becomes 0 without scaling? Does the training notice?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import float16_gradients

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
conclude(*float16_gradients.finding(runs, SCALE))

# %% [markdown]
# A scale of 2^-12 shows what happens to a network whose gradients are 4096 times smaller. There are
# such: the detection network SSD of Micikevicius et al. (sections 3.2 and 4.2) does not train
# without scaling, and with a factor of 8 it has float32's accuracy. bfloat16 has the range of
# float32 and needs no scale
# (Kalamkar et al. 2019, A study of BFLOAT16, arXiv:1905.12322, abstract).
#
# ### bfloat16 keeps the accuracy *(more)*
#
# `torch.autocast` computes convolutions and matrix products in bfloat16, and leaves the weights,
# their update and the loss in float32. The course's training script does that with
# `--precision bf16`.
#
# *Predict: how much accuracy does it cost? How much time does it save?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import mixed_precision

runs = mixed_precision.compare()
figure = mixed_precision.picture(runs, title="The same accuracy with bfloat16 as with float32")
publish_figure(
    "float32 and bfloat16 in training",
    figure,
    "Test accuracy after each of three epochs over 3,000 images, against seconds of training on one "
    "thread; the same first weights, order and images. The network is the course's with fewer "
    f"channels ({', '.join(map(str, mixed_precision.WIDTHS))}), for the sake of time.",
)
conclude(*mixed_precision.accuracy(runs))
conclude(*mixed_precision.seconds(runs))

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
from hpml.modules.m02_hardware.lecture import engines
from hpml.modules.m02_hardware.lecture import engines_picture

measured = engines.compare(ResidualNetwork(), torch.randn(32, 3, 32, 32))
print(engines.table(measured))

# %% tags=["nbval-ignore-output"]
publish_figure(
    "one network by three engines",
    engines_picture.engines(measured),
    "Forward and backward of every layer of the course's network, 32 images, one thread.",
)
conclude(*engines.finding(measured))

# %% [markdown]
# `caffe time` printed such tables for two engines (Jia et al. 2014, Caffe). In PyTorch the layout is
# one line for the network and one for the images, `.to(memory_format=torch.channels_last)`, and
# nothing else changes: shapes stay [B, C, H, W].
#
# Which kernel was it? With `ONEDNN_VERBOSE=1` oneDNN prints a line for each that it runs.
#
# *Predict: does bfloat16 use other kernels?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import onednn_kernels

found = onednn_kernels.kernels()
print(onednn_kernels.table(found))
conclude(*onednn_kernels.finding(found))

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
from hpml.modules.m02_hardware.lecture import openmp_settings

tried = openmp_settings.compare()
print(tried)
conclude(*tried.winner)
conclude(*tried.too_many)
conclude(*tried.runtime)

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
# image as 3,073 bytes: a label and its pixels, uncompressed, so that there is nothing to decode. The
# kernel counts what a pass over all of them takes.
#
# *Predict: how many opens and how many reads do 10,000 files take? And which format reads the most
# bytes, once the order is shuffled?*

# %% tags=["nbval-ignore-output"]
import shutil
import tempfile
from pathlib import Path

from IPython.display import display

from hpml.data import load
from hpml.measure import storage
from hpml.modules.m02_hardware.lecture.storage_picture import StorageTable, storage_picture
from hpml.publish import conclude, publish_figure

FOLDER = Path(tempfile.mkdtemp(prefix="hpml-02-"))
train = load().train
images, labels = train.images[::5], train.labels[::5]  # 10,000 from all over the training set
passes = storage.passes(images, labels, storage.places(FOLDER), keep=["disk"])
table = StorageTable(passes)
display(table)

# %% tags=["nbval-ignore-output"]
files, hdf5 = table.cost("files", "shuffled"), table.cost("HDF5", "shuffled")
mapped, most = table.cost("memory map", "shuffled"), table.most_opens(without="files")
conclude(
    (files.opens, files.reads, mapped.reads) == (10_000, 20_000, 0) and most <= 10,
    f"**Answer.** Files take {files.opens:,} opens and {files.reads:,} reads: one read that returns the image, "
    f"and one that finds the end of the file. No other format takes more than {most} opens. The "
    f"memory map takes {mapped.reads} reads: its pages come by {mapped.faults:,} page faults.",
    f"files took {files.opens:,} opens and {files.reads:,} reads, the memory map {mapped.reads} "
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
# *Predict: how much faster is a packed format than files? And does /dev/shm, which is memory, help
# where the disk's cache is warm?*

# %% tags=["nbval-ignore-output"]
title = f"Shuffled, the memory map is {table.gain:.1f} times as fast as files"
publish_figure(
    "six formats of the same images",
    storage_picture(passes, title=title),
    f"10,000 images of 3,073 bytes read in order and shuffled; {table.caches}.",
)
conclude(*table.map_against_files())

# %% tags=["nbval-ignore-output"]
counts = table.opens_and_reads("files", "shuffled")
conclude(
    len(set(counts.values())) == 1,
    f"No place saves an open or a read: {' and '.join(counts)} have the same. `/dev/shm` saves the "
    "way to the disk, and a warm cache has saved that already.",
    f"opens and reads differ: {counts}.",
)

# %% [markdown]
# A copy in `/dev/shm` helps where the cache does not keep your data, for instance on a network file
# system. There every open is a message. (`pack_files` is the exercise on this.)

# %% [markdown]
# ### Many nodes, one metadata server *(more)*
#
# On a cluster the data are on a parallel file system. **Lustre** keeps names, sizes and permissions
# on metadata servers (MDS), and contents on object storage targets (OST). A large file is cut into
# *stripes* (by default one OST for a file, and pieces of 4 MiB; `lfs setstripe` changes both), so
# that many OSTs send at the same time
# ([Lustre wiki](https://wiki.lustre.org/Lustre_Striping_Best_Practices)). A file of 3 KB lies on one
# OST, whatever you set, and costs a round trip to the MDS before its first byte. **GPFS** (IBM
# Storage Scale) cuts all files into blocks over all disks and has no fixed metadata server: nodes
# hand out lock *tokens*, and one of the nodes that use a file keeps its metadata (Schmuck and Haskin,
# *GPFS: A Shared-Disk File System for Large Computing Clusters*, FAST 2002, sections 2 and 3). In
# both, an open is a message or several, and it waits for its answer.

# %%
from hpml.modules.m02_hardware.lecture.storage_picture import stripes_picture

publish_figure(
    "stripes and metadata",
    stripes_picture(
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
# This machine has no Lustre, so its metadata server is **played by waiting**: an answer takes 1 ms,
# and there are at most 2,000 answers per second. Everything else is left out.
#
# *Predict: one client opens about 670 files per second. How many do 2, 4 and 16 clients open?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture.metadata_server import PlayedServer, opens_per_second
from hpml.predict.storage_epoch import SharedStorage

model = SharedStorage(opens_per_second=2_000, latency=1e-3, bandwidth=1e9)
opened = {
    clients: opens_per_second(PlayedServer(model.latency, model.opens_per_second), clients, 400)
    for clients in (1, 2, 4, 16)
}
print("clients   opens/s   model")
for clients, rate in opened.items():
    print(f"{clients:7} {rate:9,.0f} {model.rate(clients):7,.0f}")
conclude(
    opened[2] > 1.5 * opened[1] and opened[16] < 1.1 * model.opens_per_second,
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

from hpml.frameworks import tf_data_loading
from hpml.measure.loaders import Vectorised, data_loader, one_thread
from hpml.measure.loading import images_per_second

index, BATCH = np.arange(0, len(train), 5), 500
order = np.random.default_rng(0).permutation(len(index))
loaders = {
    f"DataLoader, workers: {workers}": data_loader(FOLDER / "disk/files", order, BATCH, workers)
    for workers in range(5)
}
loaders["the course's, no worker"] = Vectorised(train, index[order], BATCH)
with one_thread():
    rates = {name: images_per_second(batches) for name, batches in loaders.items()}
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
del loaders  # their workers end

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
# A step reads a batch, then computes on it. The disk waits for the processor, and the processor for
# the disk. **Prefetching** has another thread read the next batch meanwhile.
#
# First played by waiting, so that nothing else is in the picture: 30 ms to read, 50 ms to compute.
#
# *Predict: how long does a step take without prefetching, and how long with one batch read ahead?
# And with four?*

# %% tags=["nbval-ignore-output"]
import time

from hpml.modules.m02_hardware.lecture.prefetching import (
    COMPUTE,
    READ,
    part_seconds,
    step_seconds,
    steps,
)
from hpml.modules.m02_hardware.lecture.prefetch_picture import prefetch_picture

played = {
    ahead: steps(lambda _: time.sleep(0.03), lambda _: time.sleep(0.05), batches=8, ahead=ahead)
    for ahead in (0, 1, 4)
}
took = {ahead: 1e3 * step_seconds(spans) for ahead, spans in played.items()}
publish_figure(
    "prefetching, played",
    prefetch_picture(
        {f"{ahead} read ahead: {took[ahead]:.0f} ms a step": played[ahead] for ahead in played},
        title="With a batch read ahead, a step takes the maximum, not the sum",
    ),
    "Eight steps played by waiting, 30 ms to read and 50 ms to compute.",
)
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
# Now for real: for each batch, 250 small files come from the disk, and a small network learns from
# them. One thread reads, one computes.
#
# *Predict: is what prefetching saves again the smaller of the two parts?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import prefetched_training

real = prefetched_training.train(FOLDER / "disk/files", batch_size=250)
alone, together = (1e3 * step_seconds(spans) for spans in real.values())
parts = {what: 1e3 * part_seconds(real[0], what) for what in (READ, COMPUTE)}
publish_figure(
    "prefetching, for real",
    prefetch_picture(
        {f"{ahead} read ahead": spans for ahead, spans in real.items()},
        title=f"For real: {alone:.0f} ms a step become {together:.0f} ms",
    ),
    "Ten steps, each with 250 files from the disk and a step of a small network; the quickest of "
    "three runs each.",
)
conclude(*prefetched_training.finding(alone, together, parts))
shutil.rmtree(FOLDER)

# %% [markdown]
# If reading takes longer than computing, prefetching hides the computing, and the step is as long as
# the reading: then read faster (section 6), or with more workers.
# (`prefetch` is your exercise on this.)

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
conclude(*message_price.per_message(fused, rate=125e6))

# %% [markdown]
# Once a buffer is many times that size, a larger one gains little, and makes the first message wait
# for the last gradient. DDP's
# buckets have 25 MB, Horovod's buffers up to 128 MB. `fusion_buffer` is your exercise on this;
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

conclude(*balance.uneven_takes_longer(uneven))

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
conclude(*balance.waits_less(shared, shares))

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
# may then use just these.
#
# Linux places memory on the NUMA node of the CPU that writes to it first (*first touch*; the kernel's
# NUMA memory policy calls it local allocation). A rank that moves to the other socket afterwards
# leaves its memory behind, and every access crosses the link between the sockets. Bind it, and it
# stays beside its memory and its caches.
#
# *Predict: two ranks with one thread each. How long do they wait for a CPU if nobody binds them, and
# how long if both are bound to the same CPU? Does anything warn you?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m02_hardware.lecture import placement
from hpml.publish import conclude, publish_figure, skip

if placement.available():
    waits = placement.measure(placement.placements())
    publish_figure(
        "ranks that share a CPU",
        placement.picture(waits),
        "Seconds in which each of two ranks runs, and in which it waits for a CPU, as Linux counts "
        "them in /proc/PID/schedstat.",
    )
    conclude(*placement.finding(waits))
else:
    skip("two ranks on one CPU", "this process may use one CPU alone")

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
from hpml.modules.m02_hardware.lecture import srun_binding

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
conclude(*srun_binding.finding())

# %% [markdown]
# A second hardware thread fills the gaps while the first waits for memory. A matrix product hardly
# waits: both would share the same multipliers. So give a rank that computes one CPU of each core.
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
# on many clusters), `numactl --hardware` and `lscpu --extended` print it. The picture in section 2 is
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
# | activations: what layers keep for `backward` | go by the batch |
# | other tensors: images, gradients on their way, what an operator needs while it runs | some by the batch |
# | workspace: what libraries and Python take besides tensors | a few MB here |
#
# We train three networks with Adam, with three batches each. Every tensor is counted as it is made
# and freed, and the kernel counts the memory of the process.
#
# *Predict: of which network do activations take more than half of the memory at a batch of 96?*

# %% tags=["nbval-ignore-output"]
from hpml.measure import training_memory
from hpml.predict.training_memory import (
    as_foretold,
    bars,
    foretold,
    grows_with_the_batch,
    where_it_peaks,
)

taken = training_memory.measure()
figure = bars(taken, title="Activations go by the batch; 16 bytes for each parameter do not")
publish_figure("what training takes", figure, "Peak memory of a step with Adam, by kind.")
conclude(*grows_with_the_batch(taken))
conclude(*where_it_peaks(taken))

# %% [markdown]
# The dashed line is 16 bytes for each parameter. The whole is a line over the batch, nearly.
#
# So the largest batch can be foretold: the peaks of two small batches make a line, *fixed + each ×
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
most = foretold(two, 150e6)
below, above = int(0.9 * most), int(1.1 * most) + 1
fit = {n: training_memory.fits("residual network", n, 150_000_000) for n in (below, above)}
conclude(*as_foretold(two, 150e6, fit))

# %% [markdown]
# On a GPU it is the same line, with other numbers: `torch.cuda.max_memory_allocated()` at two small
# batches, and you know. What if not even one image fits? Gradient accumulation keeps the batch and
# takes micro-batches; checkpointing, moving out and sharding are module 07. `memory_budget` is your
# exercise on this section: the same figures before anything was trained.

# %% [markdown]
# ## 12. Whose fault is it?
#
# A step of the course's network, sound, and then slowed in five ways that happen to everybody: by
# the **loader**, the number of **threads**, the **precision**, the memory **layout** of the images,
# and a **neighbour**, another program on the same core.
#
# | column | how it is measured |
# |---|---|
# | load … step | seconds of a phase, by the clock |
# | cores | processor seconds for each second: cores that were in use on average |
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
conclude(*trial.finding)

# %% [markdown]
# The clock shows a slow loader: it is a phase of its own. The other four are inside *forward* and
# *backward*, where the clock cannot tell them apart: one core in use, or all of them shared; numbers
# of eight bytes; channels that lie far apart. So look in this order, from cheap to dear:
#
# 1. **Look**: dtype, memory format, threads, binding. It costs a print.
# 2. **Count**: processor time against the clock, waiting, bytes. It costs a run.
# 3. **Trace**: a profiler, when the first two do not say it (module 03).

# %% [markdown]
# ## What to take home
#
# 1. At any moment one of five sets the pace: compute, memory bandwidth, memory size, input or
#    communication; to improve another one gains nothing, so measure before you buy or rewrite.
# 2. FLOPs over bytes, beside the ridge of the machine, say whether a layer can use faster
#    arithmetic at all, before you have timed anything.
# 3. Hardware without the right library, layout, precision, thread count and place is a promise, and
#    each of these can be checked in a minute.

# %% [markdown]
# ### Where to read on
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
