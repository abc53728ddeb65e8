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
# measure; and fix the largest part first, whatever the code looks like.
#
# Before most cells there is a question in italics. Write your answer down, then run the cell.
# Sections marked *(more)* are for the evening: fold them away, and come back to them.

# %%
# %load_ext hpml
# %matplotlib inline
from pathlib import Path

from hpml.frameworks.profiled_ranks import fresh_folder
from hpml.paths import home
from hpml.publish import conclude, publish_figure, skip

# %% [markdown]
# ## 1. Where do the milliseconds go?
#
# A script trains the course's network on photos: JPEG files of 1536 × 1536 pixels (the course's
# images, enlarged), 32 for each update. Nobody has looked at its speed yet.
#
# *Predict: how many images/s? What takes the largest part of a step: loading (read and decode),
# transforms (mirror, shift, normalise), forward, backward, or the optimizer?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m03_profiling.lecture import putting_right, shares_picture, slow_training

photos, logs = home() / "photos", fresh_folder("slow_script")
first = putting_right.profiled(photos, (), logs, timed=5)
print(first.clock)

# %% [markdown]
# This is the wall clock around five steps: the median, and the slowest and the quickest. It is right
# about the whole, and silent about the parts. A clock around every line can mislead:
#
# - **One-off costs.** The first steps allocate memory and choose kernels.
# - **Lazy work.** A memory map is read when its pixels are used, not where it is opened.
# - **Asynchronous work.** A line that calls a GPU only puts work into a queue. Some later line waits
#   for it. (Call `torch.cuda.synchronize()` before you read the clock.)
#
# A *profiler* records when each operator began and ended. In the same run, `torch.profiler` recorded
# the two steps that followed:

# %% tags=["nbval-ignore-output"]
publish_figure(
    "a step of the slow script",
    shares_picture.picture({"slow script": first.shares}, title=putting_right.title(first)),
    "Mean of two steps of 32 images, from the trace of torch.profiler.",
)

# %% tags=["nbval-ignore-output"]
loading, compute = first.share("loading"), first.share("forward and backward")
seen = (
    f"{first.clock.images_per_second:.0f} images/s, by the clock. *loading* takes {loading:.0%} of a "
    f"recorded step; forward and backward together take {compute:.0%}."
)
conclude(loading > compute, f"**Answer.** {seen}", f"{seen} The cores are shared.")

# %% [markdown]
# Section 5 puts this script right. First, the tools.

# %% [markdown]
# ## 2. Which profiler when?
#
# | question | tool | it cannot see |
# |---|---|---|
# | how long does it take? | wall clock | the parts |
# | what is the program doing now? | py-spy | what is shorter than a sample; how often |
# | which Python function? | `cProfile` | inside an operator; other threads |
# | which operator, phase, tensor? | `torch.profiler` | what is not PyTorch, without a name |
# | which instruction, which cache? | `perf` | Python's names |
# | which kernel of the GPU? | `torch.profiler`, Nsight Systems | why a kernel is slow (Nsight Compute) |
# | who holds the GPU's memory? | [memory snapshot](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html) | what is not PyTorch's (NCCL) |
# | which of many ranks? | [HolisticTraceAnalysis](https://hta.readthedocs.io) | ranks without a trace |
#
# `cProfile`, `torch.profiler` and Nsight Systems *trace*: they record each event, so counts and
# order are exact, and each event costs time. So record few steps, with the options that your question
# needs. py-spy and `perf` *sample*: they look from time to time, and miss what is short or rare. An
# event costs them nothing, a look does: for each one py-spy stops all threads of the process
# ([py-spy #872](https://github.com/benfred/py-spy/issues/872)).
#
# ### What does a profiler cost? *(more)*
#
# *Predict: what costs more: py-spy, `cProfile`, or torch.profiler with all its options? And what does
# torch.profiler cost in the steps that it does not record?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m03_profiling.lecture import python_profilers

overheads = python_profilers.both()
print(python_profilers.table(overheads))

# %% tags=["nbval-ignore-output"]
dearest = python_profilers.dearest(overheads)
conclude(
    dearest.held,
    f"**Answer.** With small operators *{dearest.way}* costs most: a step takes "
    f"{dearest.small:.1f} times as long. With large ones it takes {dearest.large:.2f} times as long; "
    f"there *{dearest.of_large}* costs most ({dearest.most_of_large:.2f} times). A tracer's event "
    "costs about the same whatever it stands for. Outside its window, a step with torch.profiler takes up "
    f"to {dearest.outside:.2f} times as long.",
    f"with small operators *{dearest.way}* made a step {dearest.small:.2f} times as long, with "
    f"large ones {dearest.large:.2f} times; outside the window it was {dearest.outside:.2f} times: "
    "other programs use these cores too.",
)

# %% [markdown]
# Large operators are those of 64 images, small ones those of one. torch.profiler was timed by the
# processor time of the training thread, py-spy and `cProfile` by the wall clock; each figure is a
# ratio of medians over three rounds, with the smallest and the largest of a round. py-spy had one
# thread to stop. On 192 cores with 159 threads a program of 1.5 s took 8 to 24 s at 100 samples/s, and
# 1.5 s with `--nonblocking` ([py-spy #872](https://github.com/benfred/py-spy/issues/872)).
#
# ### Commands *(more)*
#
# - `py-spy top --pid PID` shows what a running job is doing, with no preparation, and `py-spy record
#   --pid PID --output profile.svg` draws it as a flame graph. `--native` adds the frames of C++
#   ([its README](https://github.com/benfred/py-spy)). With `--nonblocking`
#   py-spy stops nothing, and may see broken stacks.
# - `python -m cProfile -s tottime script.py` prints the functions with the most time of their own.
# - `python -m torch.utils.bottleneck script.py` is in many guides. It ran `cProfile` and autograd's
#   profiler, nobody kept it up
#   ([pytorch #68742](https://github.com/pytorch/pytorch/issues/68742)), and PyTorch 2.13 no longer
#   has it. Its successor is `torch.profiler`, with `with_stack=True` for the lines of Python.
# - `with_stack=True` records each call of a Python function, as `cProfile` does; `record_shapes=True`
#   the sizes of each operator's inputs; `profile_memory=True` each allocation.
# - `perf` and Nsight are in section 11.

# %% [markdown]
# ## 3. A schedule, and names for the phases
#
# A trace grows with every step, so a *schedule* chooses which steps are recorded. In each cycle it
# waits, warms up, and is active. Warming up records and throws away: starting a profiler has one-off
# costs, which must not be in the first step that you read. The profiler counts by `profiler.step()`:
# a loop that never calls it stays in step 0.
#
# PyTorch marks its own work: operators, the optimizer, backward. `record_function` gives a name to
# what *you* do.
#
# *Predict: a step reads 16 photos and trains on them. Without names, how much of it has no phase?*

# %% tags=["nbval-ignore-output"]
from contextlib import nullcontext

from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.profiler import profile, record_function, schedule, tensorboard_trace_handler

from hpml import data
from hpml.models.residual import ResidualNetwork
from hpml.modules.m03_profiling.lecture import schedule_picture, shares_picture, slow_training
from hpml.trace.profiler import read, shares


def train(name, profiler, steps=5):
    model = ResidualNetwork()
    optimizer = SGD(model.parameters(), lr=0.01)
    files = slow_training.Photos(photos)
    for index in slow_training.shuffled(128, 16, steps):
        with name("loading"):
            images, labels = files.batch(index)
        with name("transforms"):
            pixels = data.normalize(data.augment(images))
        with name("forward"):
            loss = cross_entropy(model(pixels), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()


found = {}
for way, name in {"unnamed": nullcontext, "names": record_function}.items():
    folder = fresh_folder(way)
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=tensorboard_trace_handler(folder, worker_name="rank0"),
    ) as profiler:
        train(name, profiler)
    [file] = Path(folder).iterdir()
    found[way] = shares.shares(read.read(file))

# %% tags=["nbval-ignore-output"]
publish_figure(
    "names for the phases",
    shares_picture.picture(found, title="What has no name cannot be found"),
    "The same training with and without record_function; mean of two recorded steps of 16 photos.",
)

# %% tags=["nbval-ignore-output"]
without, named = (found[way].fraction("other") for way in found)
conclude(
    without > 0.05 and named < without / 2,
    f"**Answer.** {without:.0%}; with names {named:.0%}. Python and the JPEG library are not "
    "PyTorch, so the profiler sees nothing while they work.",
    f"without names {without:.0%} had no phase, with names {named:.0%}: the cores are shared.",
)

# %% [markdown]
# With several ranks each needs a file of its own: `worker_name=f"rank{rank}"`. (`instrument` is the
# exercise on this section.)
#
# ### Which steps does a schedule record? *(more)*
#
# *Predict: `skip_first=1, wait=2, warmup=1, active=3, repeat=2`: which of 16 steps are recorded, in
# how many files?*

# %%
window = schedule(skip_first=1, wait=2, warmup=1, active=3, repeat=2)
publish_figure(
    "a profiler's schedule",
    schedule_picture.picture(window, 16, title="Two cycles: wait, warm up, record; then off"),
    "What torch.profiler's schedule says of 16 training steps.",
)

# %%
numbers, files = schedule_picture.recorded(window, 16)
conclude(
    (numbers, files) == ([4, 5, 6, 10, 11, 12], 2),
    f"**Answer.** Steps {', '.join(map(str, numbers))}, in {files} files: `on_trace_ready` is called "
    "at the end of each cycle.",
    f"steps {numbers} in {files} files: this version of PyTorch has another schedule.",
)

# %% [markdown]
# ## 4. Read a trace
#
# PyTorch calls its view in TensorBoard
# [deprecated](https://docs.pytorch.org/tutorials/intermediate/tensorboard_profiler_tutorial.html) and
# names [Perfetto](https://ui.perfetto.dev): open the page and drag a trace onto it. The file stays in
# your browser. (With no internet: `./hpml tensorboard`, below.) Try it with
# `src/hpml/recorded/steps_bad.pt.trace.json.gz`, a training on one GPU.
#
# *Predict: what does the GPU do while the host makes a batch? And at `.item()`, who waits for whom?*

# %%
from hpml.modules.m03_profiling.lecture import guided, views
from hpml.record import kept
from hpml.trace.profiler import read

trace = read.read(kept.SHIPPED / "steps_bad.pt.trace.json.gz")
seen = guided.reading(trace)
publish_figure(
    "a trace read in five places",
    guided.picture(trace, seen, title=f"In {seen.idle:.0%} of this step the GPU does nothing"),
    "A step of training on one H200, in the rows of Perfetto: the host's threads, and the GPU's stream.",
)

# %% [markdown]
# W and S zoom, A and D move, a click selects an event, F brings it onto the screen
# ([keys](https://perfetto.dev/docs/visualization/perfetto-ui)). Look in this order:
#
# 1. **The step**, `ProfilerStep#9`: type its name into the search field, press F twice.
# 2. **The widest gap** in the row *stream*: the GPU waits. Look up: what does the host do meanwhile?
# 3. **The copy**, `Memcpy HtoD`: from *pageable* memory the host waits for it; from *pinned* memory
#    it can run beside kernels.
# 4. **A kernel**: click it, and follow the arrow to its launch. The GPU has a queue if the launch is
#    long before the kernel. If not, the gaps between kernels are the host's.
# 5. **The waits**, `cudaStreamSynchronize`: `.item()` makes one. When it ends the queue is empty.

# %%
waited = 1e3 * trace.duration[seen.waits].sum()
conclude(
    seen.meanwhile == "loading" and 1e3 * seen.queued > waited,
    f"**Answer.** Nothing, for {1e3 * (seen.gap[1] - seen.gap[0]):.1f} of "
    f"{1e3 * seen.step.seconds:.1f} ms: the host is in *{seen.meanwhile}*. The copy, from pageable memory, takes "
    f"{1e3 * trace.duration[seen.copy]:.1f} ms, and its call {1e3 * seen.held:.1f} ms of the host. Kernels "
    f"run up to {1e3 * seen.queued:.1f} ms after their launch: there is a queue. At `.item()` the host waits for the "
    f"GPU, but by then the queue has run empty: all {len(seen.waits)} waits together take {waited:.2f} ms.",
    "another trace lies where the course's was.",
)

# %% [markdown]
# ### TensorBoard, with no internet *(more)*
#
# The plugin `torch-tb-profiler` loads a chart library from the internet: on a compute node its page
# stays blank. `./hpml tensorboard`, or `./hpml tensorboard FOLDER`, shows the same views with no internet:
#
# | view | question |
# |---|---|
# | Overview | which part of a step? |
# | Operator | which operator, how often, for which shapes? |
# | Kernel | which kernel of the GPU? |
# | Trace | when, and on which thread? |
# | Memory | how much at each moment, and who allocated it? |
# | Module | which layer? |
# | Distributed | which rank waits? |
# | Diff | what changed from one run to another? |
#
# *Predict: section 3 gave its phases names. Under which heading does the Overview count "loading":
# DataLoader, CPU Exec, or Other?*

# %% tags=["nbval-ignore-output"]
parts = views.overview(home() / "logs" / "names")
print({part: f"{share:.0%}" for part, share in parts.items()})

# %% tags=["nbval-ignore-output"]
loading = found["names"].fraction("loading")
conclude(
    parts["DataLoader"] == 0 and parts["Other"] > 0.7 * loading,
    f"**Answer.** Other. In the trace loading is {loading:.0%} of the step; in the Overview "
    f"DataLoader is {parts['DataLoader']:.0%} and Other {parts['Other']:.0%}. The view knows only "
    "the names that PyTorch gives, here those of `torch.utils.data.DataLoader`. Your own names are "
    "in the Trace view.",
    f"the parts were {parts}, and loading in the trace {loading:.0%}.",
)

# %% [markdown]
# So read "Other" as "unknown", and give names. This is what the Overview looks like for a script that
# does use a DataLoader, in its main process, and the other views. Memory is recorded with
# `profile_memory=True`, shapes with `record_shapes=True`, modules and call stacks with
# `with_stack=True`. In Memory and Module, drag over a part of the chart to see it alone.
#
# What the views cannot show: the Overview and Distributed count as communication what PyTorch names
# `gloo:…` or `nccl:…` *broadcast*, *reduce*, *all_reduce*, *all_gather* and *reduce_scatter*, and no
# send or all-to-all. (Of NCCL the kernels count. The plugin alone takes them for computing; this
# command puts that right.) Whether a kernel uses Tensor Cores is looked up in a short list of names: many
# kernels that do count as "not", as the last picture shows. Times in Module are in µs. The Trace view
# gets its whole file at once; a large one is better opened in Perfetto (section 11).

# %%
views.show("overview", "operator", "memory", "module", "distributed", "difference", "kernel")

# %% [markdown]
# ## 5. One slow script put right
#
# The script of section 1 has seven faults, and you have met all of them:
#
# - each photo is opened, decoded and shrunk in every epoch, one at a time
# - transforms go pixel by pixel, in Python's floats
# - there are twice as many threads as cores
# - batches are tiny: 8 images at a time, gradients added up to 32
# - the layout is contiguous, not channels_last
# - all is computed in float32
# - `loss.item()` and a `print` follow each backward
#
# One rule decides what is fixed next: **the largest part of the profile that has a fix**. Then the
# profile is made anew, because all shares have changed. Forward and backward have four fixes. Too
# many threads can be counted, so they go first; of the others each is tried, and the best one
# stays. At the end all versions are timed, a step of each in turn, five times over: what else this
# machine does is then in all of them. A gain is the ratio of two medians; beside it stand the
# smallest and the largest ratio of a turn.
#
# *Predict: which fix brings most? What do bfloat16 and `.item()` bring on this processor?*

# %% tags=["nbval-ignore-output"]
from hpml.measure import bf16_kernels
from hpml.modules.m03_profiling.lecture import fixed_picture, putting_right

no_kernels = bf16_kernels.missing()
done = putting_right.put_right(photos, logs, first, without=["bfloat16"] if no_kernels else [])
print(done)
if no_kernels:
    skip("bfloat16", no_kernels)

# %% tags=["nbval-ignore-output"]
one, following, *_ = done.rounds
conclude(
    one.left < one.share and one.gain.clear,
    f"{one.share:.0%} of the step is *{one.part}*, so that is first: with `{one.fix}` it is "
    f"{one.left:.0%}, and the script {one.outcome}. Now *{following.part}* is the largest that has "
    f"a fix ({following.share:.0%}).",
    f"*{one.part}*, {one.share:.0%} of the step, was fixed first, and the script {one.outcome}: "
    "other programs use these cores too.",
)

# %% tags=["nbval-ignore-output"]
publish_figure(
    "one slow script put right",
    fixed_picture.picture(done.stages, title=putting_right.gained(done)),
    "Left: shares of a step, from the trace of each version. Right: time of a step by the clock, and "
    "what each fix saved: medians of steps in turn that the profiler did not record.",
)

# %% tags=["nbval-ignore-output"]
conclude(
    done.gain.least > 3,
    f"**Answer.** `{done.best.fix}` brings most: the script {done.best.outcome}. With all fixes it "
    f"is {done.gain} times as fast.",
    f"with all fixes the script was {done.gain} times as fast: other programs use these cores too.",
)
if not no_kernels:
    bfloat16 = done.round("bfloat16")
    seen = f"With bfloat16 the script {bfloat16.outcome}."
    conclude(
        bfloat16.gain.factor < done.best.gain.factor,
        f"{seen} A fix is a guess until it is measured.",
        f"{seen} On this processor it is the best of all.",
    )
conclude(
    done.item_share < 0.02,
    f"`.item()` in every step costs {done.item_share:.1%} of the step here: on a CPU the number is "
    "there already. On a GPU the same line waits until all queued work is done (section 4).",
    f"`.item()` took {done.item_share:.1%} of the step: it lost its core.",
)

# %% [markdown]
# The order is the profile's, not the code's, and on another machine it is another one. A part of
# 10 % that becomes free makes the step at most 1.1 times as fast (Amdahl, module 01).
# (`fix_the_loader` is the exercise on this.)
#
# ### Is the gain within Amdahl's bound? *(more)*
#
# *Predict: can a fix gain more than its part's share of the profile allows?*

# %% tags=["nbval-ignore-output"]
tight = done.tightest
seen = (
    f"*{tight.part}* was {tight.share:.0%} of the recorded step. Were it free, the step would be "
    f"{tight.bound:.2f} times as fast (Amdahl, module 01); with `{tight.fix}` it {tight.outcome}."
)
if tight.gain.least > tight.bound:
    seen += (
        f" So it can: the recorded step took {tight.recording:.2f} times as long as others. "
        "Recording slows operators and not Python, so a profile underrates what runs in Python."
    )
else:
    seen += " No fix gained more than that in all turns. It could where recording slows the rest of the step."
within = all(one.within_bound for one in done.rounds)
conclude(within, f"**Answer.** {seen}", f"{seen} The cores are shared.")

# %% [markdown]
# Packing is possible because these images fit into memory. With more data, other processes decode
# (`DataLoader(num_workers=…)`), and one epoch's work is hidden behind the training. Augmented images
# must not be packed: each epoch needs new ones.
#
# ### By hand *(more)*
#
# To try a version by hand: `python -m hpml.modules.m03_profiling.lecture.slow_training .hpml/photos --fix pack`. The
# traces are in `.hpml/logs/slow_script`: compare two of them in TensorBoard's view *Diff*.

# %% [markdown]
# ## 6. What is in a trace *(more)*
#
# A trace is a text file: JSON, in a format that Chrome defined, with a list of *events*. Below, a
# small network trains for four steps, of which three are recorded.
#
# *Predict: 64 images are loaded, seven layers run forward and backward, and SGD takes its step. How
# many events does that leave: 20, 100 or 500?*

# %% tags=["nbval-ignore-output"]
import json

import torch
from torch import nn
from torch.profiler import profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

from hpml.modules.m03_profiling.lecture import (
    memory_curve,
    operators,
    shares_picture,
    timeline_picture,
)
from hpml.trace.profiler import read, shares

torch.set_num_threads(1)  # with more, an operator's time is that of its slowest thread
images, labels = torch.rand(256, 3, 32, 32), torch.randint(10, (256,))
layers = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)]
network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(26 * 26 * 16, 10))
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
file = Path(fresh_folder("one_trace"), "rank0.pt.trace.json")
with profile(
    schedule=schedule(wait=0, warmup=1, active=3, repeat=1),
    on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(file)),
    record_shapes=True,
    profile_memory=True,
) as profiler:
    for batch, target in DataLoader(TensorDataset(images, labels), batch_size=64):
        with record_function("transforms"):
            batch = (batch - 0.5) / 0.25
        with record_function("forward"):
            loss = nn.functional.cross_entropy(network(batch), target)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        profiler.step()

trace = read.read(file)

# %% tags=["nbval-ignore-output"]
step = trace.steps[-1]
inside = (trace.start >= step.start) & (trace.start < step.end)
events = int(inside.sum())
conclude(
    100 < events < 2000,
    f"**Answer.** {events} in the last step, most of them for the 64 images that the `DataLoader` picks one by "
    f"one. The file of three steps has {file.stat().st_size / 1e3:.0f} kB.",
    f"{events} in the last step.",
)

# %% [markdown]
# This is one of them. `ph` "X" is an event with a duration, `ts` its start and `dur` its length, in
# microseconds; `tid` is its thread. `Input Dims` are the shapes, because of `record_shapes=True`.

# %% tags=["nbval-ignore-output"]
raw = json.loads(file.read_text())["traceEvents"]
event = next(event for event in raw if event["name"] == "aten::conv2d")
for key, value in event.items():
    print(f"{key:6}", value if key != "args" else {"Input Dims": value["Input Dims"], "...": "..."})

# %% [markdown]
# Drawn, it is what every viewer shows: time to the right, and what calls above what is called.
# `ProfilerStep` is one step. A colour is a phase: `transforms`, `forward`, `backward` and `optimizer`
# are names that the program gave; inside them PyTorch marked the optimizer and each node of backward
# by itself, and before them the fetch of the batch.

# %% tags=["nbval-ignore-output"]
timeline_picture.picture(trace, title="An event lies below the event that called it")

# %% [markdown]
# Without a GPU, backward runs on the thread that calls it. With one it has a thread of its own, and
# each of the GPU's streams is a row as well: what it runs are *kernels*, which run some time after
# the processor has launched them. Gloo's all-reduces are on threads of their own too (section 7).
#
# ### Self time and total time *(more)*
#
# *Predict: add up the durations of all events in the three steps. Is that the time of the three
# steps? Or half of it, or several times as much?*

# %% tags=["nbval-ignore-output"]
whole = sum(step.seconds for step in trace.steps)
every = trace.duration.sum()

# %% tags=["nbval-ignore-output"]
conclude(
    every > 2 * whole,
    f"**Answer.** {every / whole:.1f} times as much: {1e3 * every:.0f} ms of events in {1e3 * whole:.0f} ms. A "
    "microsecond in a convolution is counted in each of the events around it.",
    f"the events have {1e3 * every:.0f} ms, the steps {1e3 * whole:.0f} ms.",
)

# %% [markdown]
# So there are two times. The *total* time of an operator has what it calls in it. The *self* time
# has not: it is the time in this operator and in no other, and self times can be added up.

# %% tags=["nbval-ignore-output"]
rows = operators.operators(trace)
print(operators.table(rows))
by_total = sorted(rows, key=lambda row: -row.seconds)
operators.picture(by_total, title="Several names for one convolution: only one of them computes")

# %% tags=["nbval-ignore-output"]
names = ("aten::conv2d", "aten::convolution", "aten::_convolution")
around = [row for row in rows if row.name in names]
own = sum(row.self_seconds for row in rows)
conclude(
    all(row.self_seconds < 0.2 * row.seconds for row in around) and own <= 1.001 * whole,
    f"`conv2d` calls `convolution`, which calls `_convolution`. Together they have "
    f"{1e3 * sum(row.seconds for row in around):.0f} ms of total and "
    f"{1e3 * sum(row.self_seconds for row in around):.1f} ms of self time. The self times of all "
    f"operators are {own / whole:.0%} of the steps; the rest is Python, between operators.",
    f"the self times of all operators are {own / whole:.0%} of the steps.",
)

# %% [markdown]
# The same care makes the shares of a step, which sections 1 and 5 go by. Each instant belongs to one
# part only: to the innermost event that has a phase's name. So the parts add up to the step. (This
# is the exercise `step_breakdown`.)

# %% tags=["nbval-ignore-output"]
each = shares.shares_of_steps(trace)
assert all(abs(each[step.number].step - step.seconds) < 1e-6 for step in trace.steps)
shares_picture.picture(
    {f"step {number}": one for number, one in each.items()},
    title="The parts of a step add up to the step",
)

# %% [markdown]
# ### Memory over time *(more)*
#
# With `profile_memory=True` each allocation is an event as well.
#
# *Predict: in which phase does a step hold most memory, and why there?*

# %% tags=["nbval-ignore-output"]
curve = memory_curve.memory_curve(trace)
title = "Backward makes gradients before it has freed what forward kept"
memory_curve.picture(trace, curve, title=title)

# %% tags=["nbval-ignore-output"]
phase = memory_curve.phase_at_peak(trace, curve)
conclude(
    phase == "backward",
    f"**Answer.** In {phase}, with {curve.peak / 2**20:.1f} MiB. Forward keeps each layer's output for backward. "
    "Backward makes the gradient of an output, which is as large, before it frees that output, and adds the "
    "gradients of the parameters.",
    f"the peak is in {phase or 'no phase'}, with {curve.peak / 2**20:.1f} MiB.",
)

# %% [markdown]
# ### Is there not a program for this? *(more)*
#
# For GPUs there is: HolisticTraceAnalysis gives idle, computing and communication time, and the
# communication that is hidden. On six traces of GPUs from its own tests, `hpml.trace.profiler` finds
# the same: five to the microsecond, and one within 3 %, because HolisticTraceAnalysis rounds its
# nanoseconds. But of a trace without kernels it knows only the steps. The table of operators is that
# of the TensorBoard plugin (section 4), to the microsecond.
#
# (Format: *Trace Event Format*, Google. What PyTorch writes into it: `libkineto/src/output_json.cpp`
# in github.com/pytorch/kineto. HolisticTraceAnalysis: hta.readthedocs.io.)

# %% [markdown]
# ## 7. Four ranks side by side
#
# Four ranks train with DDP, and one of them is slow. Which rank, since which step and in which
# phase is drawn at random. (Four ranks share a few cores here. So a layer waits where it would
# compute, and needs no core.) Each rank has a profiler of its own, and writes a file with its rank
# in the name.

# %%
from hpml.errors import UserError
from hpml.frameworks.profiled_ranks import Slow, Training, profile_ranks, somebody
from hpml.modules.m03_profiling.lecture import critical_path, ranks_picture, straggler_picture
from hpml.trace.profiler import clocks, communication, ranks, straggler

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
four = ranks.read_ranks(folder)
found = communication.communication(four)
waited, moved = (sum(getattr(one, what) for one in found) for what in ("waited", "transferred"))
title = f"{waited / (waited + moved):.0%} of this is waiting for the last rank, not transfer"
ranks_picture.communication_bars(found, title=title)

# %% tags=["nbval-ignore-output"]
spent = [1e3 * one.exposed_per_step for one in found]
shortest = min(range(4), key=spent.__getitem__)
conclude(
    shortest == slow.rank,
    f"**Answer.** The shortest: rank {shortest} has {spent[shortest]:.0f} ms in a step, the others up to "
    f"{max(spent):.0f} ms. On their own traces alone, each of the others would blame the network.",
    f"rank {shortest} has the shortest bar, and rank {slow.rank} is slow: the processes had to wait "
    "for a core.",
)

# %% [markdown]
# An all-reduce ends when the last rank has come. Ranks that come early wait (hatched), and that is
# recorded as *their* communication. In a trace, **the rank communicates** while an event goes on
# whose name begins with `gloo:` or `nccl:`, on whichever thread. **It computes** while an operator
# runs, on whichever thread: an event whose name begins with `aten::`. (The pictures here count loading
# as computing, too, and layers that only sleep; on a GPU kernels count, NCCL's as communication.) Now
# all ranks on one clock.
#
# *Guess before you run the second cell: which rank, since which step, in which phase?*

# %% tags=["nbval-ignore-output"]
publish_figure(
    "four ranks side by side",
    ranks_picture.side_by_side(four, title="From some step on, three ranks wait for the fourth"),
    "Phases of six training steps on four ranks; hatched is waiting for the last rank.",
)

# %% tags=["nbval-ignore-output"]
verdict = straggler.straggler(four)
print(verdict)

# %% tags=["nbval-ignore-output"]
conclude(
    (verdict.rank, verdict.since, verdict.phase) == (slow.rank, slow.since, slow.phase),
    f"**Answer.** That is what was planted: rank {slow.rank}, since step {slow.since}, "
    f"{slow.seconds * 1e3:.0f} ms more in {slow.phase}. Rank {verdict.blamed} spends most time "
    "in communication.",
    f"planted was rank {slow.rank} since step {slow.since} in {slow.phase}: other processes need "
    "these cores.",
)

# %% [markdown]
# `straggler` looks when each rank *calls* each all-reduce: the last one makes the others wait, and
# its longer phase is the reason. (*Wait at N × N* in Scalasca; Geimer et al. 2010.)
# (`find_the_straggler` is the exercise on this.)
#
# **At 256 GPUs** each step waits for the slowest of 256. If a rank is late in 1 step of 100, each rank
# for itself, somebody is late in 4 % of the steps with 4 ranks, and in 92 % (1 − 0.99²⁵⁶) with 256. Let
# `straggler` or HolisticTraceAnalysis look at the traces first (section 12).
#
# ### The same in TensorBoard *(more)*
#
# TensorBoard has it too: `./hpml tensorboard .hpml/logs/four_ranks`, view *Distributed*. The rank
# with the least *Synchronizing Time* is the one to look at. Beware of the *Overview* of a single
# rank: of one that waits for long it recommends gradient compression, as if the network were slow.

# %% [markdown]
# ### Three faults, three shapes *(more)*
#
# A rank is late for one of many reasons. Here are three, on two ranks that do compute: rank
# 1 sleeps 30 ms in `forward`; or its images are nine times as large and have to be made smaller; or
# three other processes use its core.
#
# *Predict: in which phases is rank 1 slower, in each of the three?*

# %% tags=["nbval-ignore-output"]
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
        shapes[name] = straggler_picture.slower_phases(straggler.straggler(two), 1)
    except UserError as error:
        skip(name, str(error))
straggler_picture.shapes_of_faults(
    shapes, title="A fault of the program slows one phase, a full core all"
)

# %% tags=["nbval-ignore-output"]
slowed = {name: [p for p, times in shape.items() if times > 1.5] for name, shape in shapes.items()}
expected = {"sleeps in forward": ["forward"], "larger images": ["loading"]}
listed = "; ".join(f"*{name}*: {', '.join(slower)}" for name, slower in slowed.items())
conclude(
    all(slowed[name] == phases for name, phases in expected.items())
    and len(slowed.get("overfull core", "two")) >= 2,
    f"**Answer.** Phases that take more than 1.5 times as long: {listed}.",
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
off = [0.0, 1.7, -42.0, 3600.0]
aligned, put_right = clocks.align(
    [clocks.moved_by(trace, by) for trace, by in zip(four, off, strict=True)]
)
print(put_right)

# %% tags=["nbval-ignore-output"]
wrong = [abs(offset + by) for offset, by in zip(put_right.offset, off, strict=True)]
conclude(
    all(a <= b + 1e-6 for a, b in zip(wrong, put_right.error, strict=True)),
    f"**Answer.** To milliseconds. The offsets are right within {1e3 * max(wrong):.1f} ms, and the bounds "
    f"promise {1e3 * max(put_right.error):.1f} ms: the narrowest wait of each two ranks decides.",
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
step = four[0].steps[-1].number
path = critical_path.critical_path(four, step)
title = "The path runs through the slow rank"
display(ranks_picture.side_by_side(four, [step], path=path, title=title))
print(critical_path.table(path))

# %% tags=["nbval-ignore-output"]
own = sum(piece.seconds for piece in path if piece.rank == slow.rank)
others = {piece.what for piece in path if piece.rank != slow.rank}
computing = {p.what: 1e3 * p.seconds for p in path if p.rank == slow.rank and p.seconds > 1e-3}
whole = sum(piece.seconds for piece in path)
conclude(
    own > 0.5 * whole and not others & {"loading", "forward"},
    f"**Answer.** {own / whole:.0%} of {1e3 * whole:.0f} ms, of that {computing.get(slow.phase, 0):.0f} ms in "
    f"{slow.phase}. Before the all-reduce only rank {slow.rank} is on the path: no gain in loading or forward of "
    "the others. After it the path is on the rank that ends last.",
    f"rank {slow.rank} has {own / whole:.0%} of the path: other processes need these cores.",
)

# %% [markdown]
# ## 8. Communication behind backward *(more)*
#
# DDP sends a bucket of gradients as soon as all of them are there, while `backward` goes on (module
# 06; Li et al. 2020, section 3.2). How much of the communication is then *hidden*?
#
# Two ranks, eight layers with 8 MB of gradients in all, over links of 1 Gbit/s. A layer waits 15 ms
# in backward, as if it computed. What is the limit of a bucket? DDP's default is 1 MiB for the
# first bucket and 25 MiB for the others. `bucket_cap_mb=25` is 25 MiB for all, and
# `bucket_cap_mb=1` is 1 MiB for all.
#
# *Predict: 8 MB take 64 ms or more on this link. How many of them does a rank wait for, with each
# of the three?*

# %% tags=["nbval-ignore-output"]
from hpml.frameworks.profiled_ranks import Training, profile_ranks
from hpml.modules.m03_profiling.lecture import ranks_picture
from hpml.trace.profiler import communication

runs = {
    name: profile_ranks(
        Training(layers=8, width=512, forward=0.002, backward=0.015, bucket_mb=limit),
        2,
        fresh_folder(f"buckets_of_{limit}_MiB"),
        link="1gbit",
    )
    for name, limit in {"25 MiB": 25, "default": None, "1 MiB": 1}.items()
}
ranks_picture.buckets(runs, title="Small buckets leave while backward is at work")

# %% tags=["nbval-ignore-output"]
of_rank_0 = {name: communication.communication(traces)[0] for name, traces in runs.items()}
ranks_picture.hidden_bars(
    {name: [one] for name, one in of_rank_0.items()},
    title="With small buckets most of the communication of rank 0 is hidden",
)

# %% tags=["nbval-ignore-output"]
large, default, small = of_rank_0.values()
conclude(
    small.exposed < 0.6 * default.exposed and default.hidden_share > large.hidden_share,
    f"**Answer.** With 25 MiB for {1e3 * large.exposed_per_step:.0f} ms of each step: "
    f"{large.hidden_share:.0%} of the time in flight is hidden. With the default for "
    f"{1e3 * default.exposed_per_step:.0f} ms ({default.hidden_share:.0%}), with 1 MiB for "
    f"{1e3 * small.exposed_per_step:.0f} ms ({small.hidden_share:.0%}).",
    f"with 25 MiB {1e3 * large.exposed_per_step:.0f} ms of each step, with the default "
    f"{1e3 * default.exposed_per_step:.0f} ms, with 1 MiB {1e3 * small.exposed_per_step:.0f} ms: "
    "other processes need these cores, or no link can be emulated here.",
)

# %% [markdown]
# The bytes are the same: each gradient is sent once. All eight layers fit into one bucket of 25 MiB,
# so it leaves when `backward` ends, and nothing can hide it. The default sends the last layer's
# gradients alone, while the other layers compute; those fit into its second bucket. Of buckets of
# 1 MiB only the last has to be waited for. A network of some hundred megabytes has many buckets with
# the default, too.
#
# Smaller is not better without end: each all-reduce has its latency, and many small ones do not
# fill the link (module 06, section 6). And a rank that comes late cannot be hidden by any bucket:
# what is hatched is waiting. (`overlap` is the exercise on this: it counts waiting apart.)

# %% [markdown]
# ## 9. Scalars, images, histograms and profiles in one folder *(more)*
#
# A profile says where a step's time goes. Whether the training learns is said by other records:
# loss and accuracy over time, the images as the network sees them, how parameters and gradients are
# distributed, and the hyperparameters. TensorBoard reads all of them from one *log folder*. The
# training script writes them there:
#
#     ./hpml train --tensorboard logs/run1 --profile 0,3
#
# Rank 0 writes the events. The ranks of `--profile` write three steps each, with shapes and memory,
# into `rank0.pt.trace.json.gz` and `rank3.pt.trace.json.gz`: first to the node's own disk, and into
# the log folder when the run is over.
#
# *Predict: what takes most of the space: the scalars of four epochs, 128 images, 64 bars for each
# of 132 histograms, or a profile of three steps?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m03_profiling.lecture import event_files_picture, script
from hpml.trace import event_files

logs = Path(fresh_folder("one_run"))
history = script.run(
    "--epochs 4 --samples 2000 --test-samples 500 --batch-size 100 --widths 16,32,32 --threads 1 "
    "--profile 0",
    logs=logs,
)
written = event_files.read(logs)
display(written)

# %% tags=["nbval-ignore-output"]
kilobytes = {kind: size / 1e3 for kind, size in written.sizes.items()}
largest = max(kilobytes, key=kilobytes.__getitem__)
steps = 4 * 2000 // 100
conclude(
    largest == "images",
    f"**Answer.** The images: {kilobytes['images']:.0f} kB, and the scalars {kilobytes['scalars']:.1f} kB. But "
    f"a profile grows with every step. Of all {steps} steps it would take about "
    f"{steps / 3 * kilobytes['profiles'] / 1e3:.0f} MB, for a network this small (section 11 reckons more).",
    f"here the {largest} take most: {kilobytes[largest]:.0f} kB.",
)

# %% [markdown]
# The same as pictures, if you have no browser at hand. Among the images are the first 16 of
# the test, under the class that the network takes them for. Compare histograms from epoch to epoch: a
# gradient that is 0 for all weights of a layer changes none of them.

# %% tags=["nbval-ignore-output"]
publish_figure(
    "what is in a log folder",
    event_files_picture.picture(
        written,
        curves=["loss/train", "loss/test"],
        histogram="gradients/head.weight",
        image="predictions",
        title=f"After four epochs {history.test_accuracy:.0%} of the test images are right",
    ),
    "Losses, the distribution of one layer's gradient after each epoch, and predictions.",
)

# %% [markdown]
# In JupyterLab the next cell shows TensorBoard itself below it (scalars, images, histograms, hparams;
# PyTorch Profiler in the menu at the top right). It needs no second port: JupyterLab hands the page
# on. So the tunnel that you have to JupyterLab on a cluster is enough:
#
#     ssh -L 8888:localhost:8888 MACHINE
#
# `%tensorboard` would need one more tunnel for port 6006, and its profiler page the internet. Either
# way TensorBoard asks for no password on the machine it runs on: other people on the same login
# node can read what it shows.

# %% tags=["nbval-ignore-output"]
show_tensorboard(logs)

# %% [markdown]
# ## 10. TensorFlow's profiler *(more)*
#
# TensorFlow has a profiler of its own: `tf.profiler.experimental.start(folder)` and `stop()`, and
# around each step `tf.profiler.experimental.Trace("train", step_num=n, _r=1)`. It records what
# PyTorch's does, and one thing more: each call of each stage of a `tf.data` pipeline.
#
# The program below has 512 JPEG files in memory. It decodes and augments them one at a time, as many
# programs do, and trains a network of one convolution.
#
# *Predict: what share of a step does the network wait for its images? Which costs more, to decode
# an image or to mirror and shift it?*

# %% tags=["nbval-ignore-output"]
from hpml.modules.m03_profiling.lecture import tf_data_picture, tf_data_profiled

written_as = tf_data_profiled.profile(Path(fresh_folder("tensorflow")))

# %% tags=["nbval-ignore-output"]
decode, augment = (
    next(s for s in written_as.stages if s.name == name) for name in ("decode", "augment")
)
conclude(
    written_as.share > 0.4,
    f"**Answer.** It waits {written_as.share:.0%} of a step. To decode an image takes "
    f"{1e6 * decode.seconds / decode.calls:.0f} µs, to mirror and shift it "
    f"{1e6 * augment.seconds / augment.calls:.0f} µs.",
    f"it waits {written_as.share:.0%} of a step; the network itself was held up by other programs.",
)

# %% [markdown]
# Three changes, each from [TensorFlow's guide](https://www.tensorflow.org/guide/data_performance):
# keep the decoded images (`cache`, before the augmentation, which must stay fresh in each epoch);
# augment a whole batch with each operator (`batch` before `map`); make the next batch meanwhile
# (`prefetch`).
#
# *Predict: how many times is the augmentation called in a step now?*

# %% tags=["nbval-ignore-output"]
fixed = tf_data_profiled.profile(Path(fresh_folder("tensorflow_fixed")), fixed=True)
before, after = (1e3 * one.seconds / one.steps for one in (written_as, fixed))
publish_figure(
    "tf.data, stage by stage",
    tf_data_picture.picture(
        {"as written": written_as, "fixed": fixed},
        title=f"A batch at a time, and ahead: a step of {before:.1f} ms takes {after:.1f} ms",
    ),
    "Milliseconds per step in each stage of the input pipeline, and what the network waits of it.",
)

# %% tags=["nbval-ignore-output"]
batched = next(stage for stage in fixed.stages if stage.name == "augment")
conclude(
    fixed.share < written_as.share,
    f"**Answer.** {batched.calls / fixed.steps:.0f} time instead of {augment.calls / written_as.steps:.0f}: a "
    "call for each batch, not for each image, so that far fewer operators are started. The network "
    f"waits {fixed.share:.0%} of a step instead of {written_as.share:.0%}.",
    f"the network waits {fixed.share:.0%} of a step, and {written_as.share:.0%} before: the machine "
    "was busy while one of them ran.",
)

# %% [markdown]
# In both programs `tf.data` was told to run the stages as written. By default it makes maps parallel
# and joins stages by itself; the profile then has names of stages that no line of the program has.
#
# The file is a protocol buffer (`plugins/profile/…/*.xplane.pb`). The pictures above are read from
# it directly. TensorFlow's own page for it is [XProf](https://openxla.org/xprof), optional here:
# `pip install -e '.[xprof]'` in the course's folder, then `./hpml tensorboard .hpml/logs/tensorflow`,
# and *Profile*. Its page loads a chart library from elsewhere; `./hpml tensorboard` serves it with one
# from this machine. With no internet the trace viewer and *Input Pipeline Analysis* are complete: the
# step times, the breakdown and the table of stages. In the other tools the numbers are there, but most
# charts and tables stay empty.

# %% [markdown]
# ## 11. The same trace elsewhere *(more)*
#
# Chrome's trace format is JSON: a list of events with a name, a start, a duration, a process and a
# thread. PyTorch's profiler and Horovod's timeline both write it, and most programs open both:
#
# | to see it | do this | it needs |
# |---|---|---|
# | in TensorBoard | `./hpml tensorboard logs` | nothing else; PyTorch's only |
# | in [Perfetto](https://ui.perfetto.dev) | open the page, drag the file onto it | the page once; the file stays in the browser |
# | in Chrome or Chromium | `chrome://tracing`, then *Load* | nothing else; slow above some 100 MB |
# | a file too large for a browser | `trace_processor --httpd FILE` on the cluster, `ssh -L 9001:localhost:9001 MACHINE`, then open Perfetto: it asks whether to use what runs on port 9001 | [trace_processor](https://perfetto.dev/docs/visualization/large-traces) |
# | with SQL | `trace_processor FILE` | the same |
#
# To bring traces from a cluster: `rsync -av MACHINE:run/logs/ logs/`. They are packed already, and
# Perfetto and TensorBoard take them so. Before version 57 Perfetto left out events of one thread that
# overlap without lying within each other, as communication may
# ([release notes](https://lalitm.com/post/perfetto-v57/)).
#
# Two records of one job can be laid side by side if both say when their clock was zero. Here the
# training script runs on two ranks of Horovod, with PyTorch's profiler and Horovod's timeline.
#
# *Predict: torch.profiler has a long "optimizer" at the end of the step. SGD multiplies and adds
# once for each parameter. What does the optimizer do in that time?*

# %% tags=["nbval-ignore-output"]
from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import beside_horovod, horovod_profiled

try:
    both = beside_horovod.one_step(*horovod_profiled.record(Path(fresh_folder("horovod"))))
except UserError as why:
    both = None
    skip("a step in torch.profiler and in Horovod's timeline", str(why))

# %% tags=["nbval-ignore-output"]
if both:
    called = both.seconds_of("optimizer")
    publish_figure(
        "two profilers, one step",
        beside_horovod.one_step_picture(
            both,
            title=f"{both.waited / called:.0%} of what one profiler calls optimizer is waiting",
        ),
        "Phases of a step by torch.profiler; below, each gradient in Horovod's timeline. A negotiation "
        "that begins before this rank's backward was begun by the other rank, which is ahead.",
    )

# %% tags=["nbval-ignore-output"]
if both:
    conclude(
        both.waited > 0.5 * called,
        f"**Answer.** It waits: {both.waited / called:.0%} of the {1e3 * called:.0f} ms are over before the last "
        "gradient is back. Horovod's optimizer waits for them inside `step()`. Grey is negotiation: "
        "Horovod asks all ranks whether they have this gradient, too, so it is the time until the "
        "slower rank has it and a core runs Horovod's thread.",
        f"of {1e3 * called:.0f} ms in the optimizer, {1e3 * both.waited:.0f} ms are before the last "
        "gradient was back.",
    )

# %% [markdown]
# ### Below the framework *(more)*
#
# These need a GPU or rights on the machine, and are named here, not run. Each answers what the
# profilers above cannot.
#
# | question | command |
# |---|---|
# | Does the GPU idle, and what does the host do meanwhile? | `nsys profile --trace=cuda,nvtx,osrt --capture-range=cudaProfilerApi --capture-range-end=stop --output=rank%q{SLURM_PROCID} python train.py`, with `torch.cuda.profiler.start()` and `stop()` around a few steps; then `nsys stats rank0.nsys-rep` |
# | Is this kernel bound by memory or by compute? | `ncu --set full --kernel-name regex:gemm --launch-skip 20 --launch-count 3 --export kernels python train.py` |
# | Which C++ function takes the processor's time? | `perf record -F 99 -g --pid PID -- sleep 10`, then `perf report`; with Python 3.12 `python -X perf train.py` gives Python's functions their names |
# | Where does a program stand that hangs? | `py-spy dump --pid PID` |
#
# `ncu` runs each kernel many times over, once for each group of counters: profile three kernels,
# not a training. (Nsight Systems
# [User Guide](https://docs.nvidia.com/nsight-systems/UserGuide/), Nsight Compute
# [CLI](https://docs.nvidia.com/nsight-compute/NsightComputeCli/), Python
# [and perf](https://docs.python.org/3/howto/perf_profiling.html).)

# %% [markdown]
# ## 12. On the cluster *(more)*
#
# A job on the cluster has nobody who looks on, and many more ranks. Which of them do you profile?
#
# A trace grows with the operators that are recorded, not with the size of their tensors. The course
# comes with traces of four ranks that were recorded beforehand: six steps of four small layers. (Four
# ranks had two cores, so a layer waited where it would compute.)
#
# *Predict: how large would the traces of a whole job be, 256 ranks and 1,000 steps of this network?
# And those of two ranks and three steps?*

# %%
from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import ranks_picture, shares_picture, timeline_picture
from hpml.paths import CHECKOUT
from hpml.record import kept, pictures
from hpml.trace.profiler import ranks, reference, shares, straggler

everything = reference.size(ranks=256, steps=1000)
enough = reference.size(ranks=2, steps=3)

# %%
conclude(
    everything > 10_000 * enough,
    f"**Answer.** {everything / 1e9:.1f} GB, written by 256 processes at the same time, and {enough / 1e3:.0f} "
    "kB. A network with more operators in a step has larger ones.",
    f"{everything / 1e9:.1f} GB and {enough / 1e3:.0f} kB.",
)

# %% [markdown]
# So `slurm/03_profile.slurm` profiles three steps on two ranks: rank 0 and the last one, which is
# on another node. Each writes its trace to its node's own disk, and copies it into one folder when
# the run is over: no step waits for the shared file system. The file has the rank in its name.

# %%
script = (CHECKOUT / "slurm/03_profile.slurm").read_text()
print(script[script.rindex("srun --") :])

# %% [markdown]
# ```
# sbatch slurm/03_profile.slurm
# ./hpml tensorboard build/jobs/4711/traces    # 4711: the job's number
# ```
#
# Two ranks of the recorded four would have left these shares of a step.
#
# *Predict: which of the two holds up the other?*

# %%
four = ranks.read_ranks(reference.FOLDER)
two = {f"rank {rank}": shares.shares(four[rank], 7) for rank in (0, 3)}
shares_picture.picture(two, title="Two of four ranks: which one is late?")

# %%
waiting = {name: found.fraction("communication") for name, found in two.items()}
conclude(
    min(waiting.values()) > 0.2,
    f"**Answer.** Neither: both spend a large part of the step in communication, {waiting['rank 0']:.0%} and "
    f"{waiting['rank 3']:.0%}. The network may be slow, or a third rank may come late. Two traces "
    "cannot tell these apart.",
    f"they spend {waiting['rank 0']:.0%} and {waiting['rank 3']:.0%} of the step in communication.",
)

# %% [markdown]
# If both waited for the network, it would be carrying bytes all the time. So next, profile all
# ranks, once and for few steps: `--profile 0,1,2,3`, an option of the training script that comes
# after the job script's name.

# %%
title = "Four ranks in three steps: three of them wait"
display(ranks_picture.side_by_side(four, [4, 5, 6], title=title))
verdict = straggler.straggler(four)
print(verdict)

# %%
least = min(shares.shares(trace, 7).fraction("communication") for trace in four)
own = shares.shares(four[verdict.rank], 7).fraction("communication")
conclude(
    (verdict.rank, verdict.since, verdict.phase) == reference.PLANTED and own == least,
    f"That is what was planted. Rank {verdict.rank} is none of the two above, and it has the "
    f"smallest share of communication, {own:.0%}: it waits for nobody.",
    f"planted was {reference.PLANTED}.",
)

# %% [markdown]
# In TensorBoard: `./hpml tensorboard src/hpml/trace/profiler/four_ranks`, view *Distributed*.
#
# On nodes with GPUs, `slurm/03_profile_gpu.slurm` does the same with one rank for each GPU. Where
# Nsight Systems is installed, it is used in place of torch.profiler: it also sees what libraries and
# the operating system do, and what the GPU does at the same time. (Both at once do not work: they
# read the GPU's events through one interface, CUPTI, which has one subscriber.) Its reports open in
# `nsys-ui` on your own computer, or as a table with `nsys stats rank0.nsys-rep`. All options are in
# the [user guide](https://docs.nvidia.com/nsight-systems/UserGuide/index.html).
#
# Two loops that train the same network on a GPU, as they were recorded. The first makes its batch
# image by image, reads the loss and each gradient's norm in every step, and computes in float32. The
# second reads nothing, has the next batch copied meanwhile, and computes in bfloat16. What the device
# runs is in the rows *stream*. Your own eyes: `./hpml tensorboard src/hpml/recorded`.

# %% tags=["nbval-ignore-output"]
try:
    of_gpu = kept.recorded("steps")
except UserError as why:
    of_gpu = None
    skip("a badly written step and a good one on a GPU", str(why))
else:
    of_loop = pictures.traces(of_gpu)
    print(of_gpu.origin)
    for name, trace in of_loop.items():
        title = {"bad": "The first loop", "good": "The second loop"}[name]
        display(timeline_picture.picture(trace, title=title, levels=3))

# %% tags=["nbval-ignore-output"]
if of_gpu:
    loops = pictures.loops(of_gpu, {n: pictures.on_device(t) for n, t in of_loop.items()})
    first_loop, second_loop = (
        f"{1e3 * loops.seconds[name]:.1f} ms ({1e3 * min(taken):.1f} to {1e3 * max(taken):.1f})"
        for name, taken in ((n, of_gpu.result["loops"][n]["seconds"]) for n in ("bad", "good"))
    )
    seen = (
        f"A step of the first loop takes {first_loop}, of the second {second_loop}: by the medians "
        f"of steps without a profiler {loops.factor:.1f} times as fast."
    )
    if loops.busy:
        seen += (
            f" Of that time the device works {loops.busy['bad']:.0%} in the first, "
            f"{loops.busy['good']:.0%} in the second (a recorded step is longer: section 4); the host waits "
            f"{loops.waits['bad']:.0f} and {loops.waits['good']:.0f} times a step."
        )
    if loops.starved:
        seen += (
            " Even so the host is too slow for this device: to ask for "
            f"{loops.kernels['good']:.0f} kernels, one by one, takes it longer than they run. A "
            "larger batch, a compiled network or a CUDA graph is next."
        )
    conclude(loops.held, f"**Recorded.** {seen}", seen)

# %% tags=["nbval-ignore-output"]
import shutil

if not shutil.which("sbatch"):
    skip("a profiled job", "there is no SLURM here; slurm/03_*.slurm are what you submit")

# %% [markdown]
# ## What to take home
#
# 1. Guess, then profile: fix the largest part first, profile again, and take back what gained
#    nothing.
# 2. Record few steps, after a warm-up, with names for your phases, and one file for each rank.
# 3. The rank that waits longest is not the slow one: look for the rank that the others wait for.
#
# ### Where to read on *(more)*
#
# [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html), *schedule* and
# *record_function*. Mohan et al. 2021, *Analyzing and Mitigating Data Stalls in DNN Training*
# (arXiv:2007.06775), section 3: loading in nine networks. Graham et al. 1982, *gprof*, section 3:
# counting and sampling in one profiler. Geimer et al. 2010, *The Scalasca performance toolset
# architecture*: wait states. Lin et al. 2025, *Understanding Stragglers in Large Model Training*
# (arXiv:2505.05713): late ranks in five months of training on thousands of GPUs.

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/03_profiling.ipynb) of this module: first `instrument`, `fix_the_loader`; for the evening `step_breakdown`, `find_the_straggler`, `overlap`.
