# %% [markdown]
# # 03 Profiling with TensorBoard: exercises
#
# In these exercises you record a trace, read it, and mend what it shows: in one process, and on
# ranks that wait for each other.
#
# Each exercise has an answer cell, which starts with `%%answer`, and a check below it. **An answer
# cell stands alone**: it brings its own imports and sees nothing of the other cells. The cells below
# it can use what it defines; where two answers define the same name, the one that was run last
# counts. The check runs the answer on several numbers of ranks, with new inputs each time, and
# reports which claims hold. Check as often as you like; a wrong answer costs nothing. *Before you
# start* is a question to think about first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `instrument`: a profiler around the loop
#
# **Core**, about 8 minutes.
#
# **To write:** the loop with its profiler. **Allowed:** anything that an answer may import.
#
# Here is a training loop. It runs on every rank, and nobody knows where its time goes:
#
# ```python
# for _ in range(steps):
#     batch = training.load()
#     loss = training.forward(batch)
#     training.backward(loss)
#     training.update()
# ```
#
# Write it again in `train`, with `torch.profiler.profile` around it:
#
# - Steps count from 0. `wait` steps pass without the profiler, `warmup` steps only warm it up, the
#   next `active` steps are recorded. Then it is over: **one** window, however many steps follow.
# - In each step each part is inside a mark of its own, and nothing else is:
#   `with record_function("loading"):`, `with record_function("forward"):`,
#   `with record_function("backward"):` and, around `update`, `with record_function("optimizer"):`.
# - Operators have the **shapes** of their inputs, and **memory** is recorded.
# - Each rank writes one trace into `folder`, which is there and which all ranks share. It ends in
#   `.json` or `.json.gz`, and its name has `rank0` in it on rank 0, `rank1` on rank 1, and so on.
#
# The process group is there: `torch.distributed.get_rank()`. The check reads your traces.
#
# *Before you start: 20 steps, `wait=2`, `warmup=1`, `active=3`. Which steps are in the trace with
# `repeat=1`? And with `repeat=0`, how many windows are there, and how many files, if the file's
# name is always the same?*

# %%
# %%answer instrument
import torch.distributed as dist
from torch.profiler import profile, record_function, schedule


def train(training, steps: int, wait: int, warmup: int, active: int, folder: str) -> None:
    """`steps` steps of `training`, of which `active` are recorded, after `wait` and `warmup`.

    Each rank leaves one trace of torch.profiler in `folder`, with "rank" and its number in the
    name, with shapes, memory and the four parts "loading", "forward", "backward", "optimizer".
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("instrument")

# %% [markdown]
# **Answer.** A window begins after 2 + 1 steps: 3, 4 and 5 are in the trace. With `repeat=0` the
# schedule begins again every 6 steps, so windows are 3 to 5, 9 to 11 and 15 to 17: three of them,
# and under one name only the last is left. `torch.profiler.tensorboard_trace_handler` puts the time
# into the name and keeps all three; its `worker_name` is where the rank belongs.
#
# Why not record everything? Each operator leaves a record, with shapes and memory several: a trace
# of three steps of a real network has tens of megabytes, and the recorded steps are slower than
# the others. A few steps in the middle show what all of them do.

# %% [markdown]
# ## `fix_the_loader`: put a slow loader right
#
# **Core**, about 15 minutes.
#
# **To write:** the same loader, with a fraction of its processor time. **Allowed:** anything that
# an answer may import.
#
# The cell below has a loader as people write their first one. It loads what it should: shuffled
# batches of a file of images, each image cropped at random and mirrored or not, normalised, as He et
# al. train on CIFAR-10 (*Deep Residual Learning*, 2016, section 4.2). And a GPU would wait for it.
#
# Write `Loader`, which loads the same in a fraction of the time. `Loader(path, batch_size,
# generator)` is made once; then each `for images, labels in loader:` is an epoch.
#
# - **The file** has a record of 3073 bytes for each image: a byte with its label, then 32 rows of 32
#   red pixels, then green, then blue. Do not open it for each image.
# - **A batch** is a pair: `images`, float32 of shape (B, 3, 32, 32), and `labels`, int64 of shape
#   (B,). The last batch has what is left.
# - **An epoch** has each image once, in an order that is new in every epoch.
# - **Augmentation**: an image gets 4 black pixels on every side and is cropped to 32 x 32 at one of 9
#   x 9 places, then mirrored left to right or not: all places and both directions equally likely,
#   drawn for each image and anew in each epoch.
# - **Normalising**: `(pixel / 255 - MEAN) / STD` for each colour, where a pixel is 0 to 255. Black is
#   0.
# - **The generator** alone decides. An equal one gives equal batches, whatever else draws random
#   numbers.
#
# The check counts **processor time**, of all threads and processes: to hide the work in another
# thread, as `prefetch` does, does not make it less. Beside your loader it trains a small network.
# A step is to load a batch of 32 and to train on it; loading may take a tenth of a step. With the
# given loader it takes most of it. An answer that takes more than half of the given loader's time
# gets no points.
#
# *Before you start: an image has 3072 pixels. How many times does the given loader run a line of
# Python for one image? A line takes about 0.05 µs; how long does an image take, and a batch of 32?*

# %%
import os
from collections.abc import Iterator

import numpy as np
import torch

MEAN = (0.4914, 0.4822, 0.4465)  # of red, green and blue, where black is 0 and white is 1
STD = (0.2470, 0.2435, 0.2616)


class SlowLoader:
    """Batches of images, shuffled, cropped and mirrored anew in each epoch.

    The file has a record of 3073 bytes for each image: its label, then 1024 bytes of red, of green
    and of blue, row by row.
    """

    def __init__(self, path: str, batch_size: int, generator: torch.Generator) -> None:
        self.path, self.batch_size, self.generator = path, batch_size, generator

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        number = os.path.getsize(self.path) // 3073
        order = torch.randperm(number, generator=self.generator).tolist()
        for start in range(0, number, self.batch_size):
            samples = [self.sample(place) for place in order[start : start + self.batch_size]]
            images = torch.from_numpy(np.stack([image for image, _ in samples]))
            yield images.to(torch.float32), torch.tensor([label for _, label in samples])

    def sample(self, place: int) -> tuple[np.ndarray, int]:
        with open(self.path, "rb") as file:
            record = file.read()[3073 * place : 3073 * (place + 1)]
        top, left = torch.randint(0, 9, (2,), generator=self.generator).tolist()
        mirrored = torch.randint(0, 2, (1,), generator=self.generator).item() == 1
        image = np.empty((3, 32, 32))
        for channel in range(3):
            padded = np.zeros((40, 40))  # 4 black pixels on every side
            for y in range(32):
                for x in range(32):
                    padded[y + 4, x + 4] = record[1 + 1024 * channel + 32 * y + x]
            for y in range(32):
                for x in range(32):
                    column = 31 - x if mirrored else x
                    value = padded[top + y, left + column] / 255
                    image[channel, y, x] = (value - MEAN[channel]) / STD[channel]
        return image, record[0]


# %%
# %%answer fix_the_loader
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional

MEAN = (0.4914, 0.4822, 0.4465)  # of red, green and blue, where black is 0 and white is 1
STD = (0.2470, 0.2435, 0.2616)


class Loader:
    """Batches of the images in the file at `path`, an epoch for each iteration over it.

    A batch is images, float32 (B, 3, 32, 32), and labels, int64 (B,). All draws come from
    `generator`, a CPU generator.
    """

    def __init__(self, path: str, batch_size: int, generator: torch.Generator) -> None:
        # YOUR CODE HERE
        raise NotImplementedError()

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        # YOUR CODE HERE
        raise NotImplementedError()


# %%
check("fix_the_loader")

# %% [markdown]
# **Answer.** For each pixel, 2 lines copy it into the padded image, and 4 take it into the crop and
# normalise it: 6 times 3072 are 18,000 lines, and so about 1 ms for an image and 30 ms for a batch.
# The training step beside it takes less than that, and a GPU would take less than 1 ms: it would wait
# nearly all the time.
#
# The loops are still there, but no longer in Python: one call of PyTorch runs them for 32 images in
# compiled code, over uint8 as long as possible and over float32 at the end. What is random stays
# random, and costs next to nothing: 3 numbers for an image. Keep between epochs what does not change
# in them, the file's bytes. A cache of augmented images would be fast and wrong.

# %% [markdown]
# ## `step_breakdown`: where a step's milliseconds go
#
# **More**, about 20 minutes: after the core exercises, or at home.
#
# **To write:** the milliseconds of each part, from a trace's events. **Allowed:** anything that an
# answer may import.
#
# A trace is a list of events. Those that count here are dicts like this one, with times in
# **microseconds**; `ph` is `"X"` for an event with a duration, and events of other kinds have none:
#
# ```python
# {"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 7, "tid": 7, "ts": 4e9, "dur": 310.5}
# ```
#
# `breakdown(events)` returns a list with one dict for each step, in the order of the steps. A dict
# has the **milliseconds** of the step's seven parts, which add up to the step.
#
# | what | events |
# |---|---|
# | a step | name begins with `ProfilerStep#`; its number follows |
# | loading | name is `loading`, or begins with `enumerate(DataLoader)#` |
# | transforms, forward, backward | name is the part's |
# | optimizer | name is `optimizer`, or begins with `Optimizer.` |
#
# - **The rank communicates** while an event goes on whose name begins with `gloo:` or `nccl:`, on
#   whichever thread.
# - **It computes** while an operator runs, on whichever thread: an event whose name begins with
#   `aten::`. Ops `c10d::…`, which start a collective, and autograd's nodes `autograd::engine::…` do
#   not count: a rank may wait in them.
#
# In this exercise it also computes while the innermost mark is loading or transforms.
#
# Each moment of a step belongs to one part. The first rule that fits decides:
#
# 1. **communication**, if the rank communicates (a *message* is under way) and does not compute: it
#    is *exposed*.
# 2. The part of the **innermost mark** on the step's own thread: that of the five kinds in the
#    table which began last. The step's own thread is the one that `ProfilerStep#` is on.
# 3. **other**: nobody marked it.
#
# The check has planted traces, whose parts are known, and a recorded one. Marks are nested, threads
# work at the same time, messages run behind backward, and one crosses the border between two steps.
# Events are in no order, and some take no time. Each part must be right within 1 %.
#
# *Before you start: a step of 100 ms. Its marks: loading 30 ms, with transforms of 20 ms inside;
# forward 20; backward 40, and inside it a message of 25 ms, during 15 of which operators run. What
# are the seven parts?*

# %%
# %%answer step_breakdown
PARTS = ("loading", "transforms", "forward", "backward", "optimizer", "communication", "other")


def breakdown(events: list[dict]) -> list[dict[str, float]]:
    """The milliseconds of each of PARTS, by step, in the order of the steps' numbers.

    `events` are a trace's, in no order, with `ts` and `dur` in microseconds.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("step_breakdown")

# %% [markdown]
# **Answer.** Loading 30 - 20 = 10 ms, transforms 20, forward 20. The message is hidden for 15 ms,
# and exposed for 25 - 15 = 10 ms, all of it inside backward's mark: communication 10, backward
# 40 - 10 = 30. Optimizer 0. So far 90 ms, and the step has 100: other is 10.
#
# Adding up durations by name gives another picture: loading 30 and transforms 20 (20 ms twice),
# backward 40, communication 25. That is 135 ms in a step of 100. If you then show percent of the
# sum, you find loading at 22 % and have lost the 10 ms that nobody marked. Before you believe a
# table of shares, add it up.

# %% [markdown]
# ## `find_the_straggler`: who is late, since when, in what?
#
# **More**, about 20 minutes: after the core exercises, or at home.
#
# **To write:** the function that finds the rank that is late through its own work. **Allowed:**
# anything that an answer may import.
#
# In synchronous training all ranks are as slow as the slowest. It is not easy to see which one that
# is: their steps take equally long, because the others wait. And it is the others that spend most
# time in `all_reduce`.
#
# You are given the traces of all ranks of a job, 2 to 6: `traces[r]` is rank r's list of events, in
# no order. The check makes up new jobs each time, and has three that were recorded.
#
# ```python
# {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "tid": 8178, "ts": 51307.2, …}
# {"ph": "X", "cat": "user_annotation", "name": "backward", "tid": 8178, "ts": 61307.2, …}
# {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "tid": 8178, "ts": 64812.2, "dur": 790.0, …}
# {"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "tid": 8178, "ts": 66396.2, …}
# {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "tid": 8283, "ts": 66398.2, …}
# {"ph": "M", "name": "process_name", "pid": 8178, "tid": 0, "ts": 0, "args": {"name": "python"}}
# ```
#
# An event with `ph` `"X"` lasts from `ts` to `ts + dur`, in microseconds; others have no length.
# Each trace has a clock of its own, and their zeros may be days apart.
#
# - **A step** is the time of the mark `ProfilerStep#N`; N is its number.
# - **Phases** in it are marked `loading`, `transforms`, `forward`, `backward` and `optimizer`. A
#   phase may have several marks in a step.
# - **The rank communicates** while an event goes on whose name begins with `gloo:` or `nccl:`, on
#   whichever thread.
# - **It computes** while an operator runs, on whichever thread: an event whose name begins with
#   `aten::`. Ops `c10d::…`, which start a collective, and autograd's nodes `autograd::engine::…` do
#   not count: a rank may wait in them.
# - **Own work** in a phase: its marks' time, without the time in which the rank communicates and
#   does not compute.
# - **Late** in a step is a rank with over 10 % more own work, in all phases together, than each of
#   the other ranks in that step.
# - **The straggler** is the rank that is late in each of the last steps, three at the least. It is
#   late *since* the first step of this unbroken row.
# - **Its phases**: those in which it does over 1.2 times the own work of the other ranks' mean, all
#   steps since then together.
#
# Write `find_the_straggler(traces)`. It returns the rank, the number of the step since which it is
# late, and its phases; or None where there is no straggler.
#
# *Before you start: rank 2 loads its data 20 ms more slowly than the others. On which ranks does
# backward take longer now, in their traces, and by how much?*

# %%
# %%answer find_the_straggler
PHASES = ("loading", "transforms", "forward", "backward", "optimizer")


def find_the_straggler(traces: list[list[dict]]) -> tuple[int, int, list[str]] | None:
    """The rank that is late through its own work, since which step, and in which phases.

    `traces[r]` has rank r's events. None if there is no such rank.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("find_the_straggler")


# %% [markdown]
# **Answer.** On all but rank 2, by up to 20 ms: they have begun backward earlier, and it ends only
# when the all-reduces have ended, which wait for rank 2. Rank 2 itself takes no longer for it. By
# the marks alone everybody but the straggler is slow in backward.

# %% [markdown]
# ## `overlap`: hidden, waiting, exposed
#
# **More**, about 25 minutes: after the core exercises, or at home.
#
# **To write:** the function that divides communication into three parts. **Allowed:** anything that
# an answer may import.
#
# With DistributedDataParallel, the all-reduce of one bucket of gradients runs while backward
# computes the next. How much of the communication is hidden in this way? What is left costs time,
# for one of two reasons: the rank waits for another rank, or data are on their way. A faster
# network helps against the second only.
#
# You are given the traces of all ranks of a job, as the profiler exports them: `traces[r]` is rank
# r's list of events, in no order. The check makes up new jobs each time, in which it knows what is
# hidden, and has one that was recorded, on three ranks over links of 1 Gbit/s.
#
# ```python
# {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "tid": 8178, "ts": 51307.2, …}
# {"ph": "X", "cat": "user_annotation", "name": "backward", "tid": 8178, "ts": 61307.2, …}
# {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "tid": 8178, "ts": 64812.2, "dur": 790.0, …}
# {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "tid": 8178, "ts": 64902.2, "dur": 640.0, …}
# {"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "tid": 8178, "ts": 66396.2, …}
# {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "tid": 8283, "ts": 66398.2, …}
# {"ph": "M", "name": "process_name", "pid": 8178, "tid": 0, "ts": 0, "args": {"name": "python"}}
# ```
#
# An event with `ph` `"X"` lasts from `ts` to `ts + dur`, in microseconds. Other events have no
# length, and say nothing here.
#
# - **A step** is the time of the mark `ProfilerStep#N`.
# - **The rank communicates** while an event goes on whose name begins with `gloo:` or `nccl:`, on
#   whichever thread.
# - **It computes** while an operator runs, on whichever thread: an event whose name begins with
#   `aten::`. Ops `c10d::…`, which start a collective, and autograd's nodes `autograd::engine::…` do
#   not count: a rank may wait in them.
# - **A collective** is an event in which the rank communicates; there may be several at a time. The
#   event begins when the rank joins the collective.
# - **Data move** in a collective from the moment at which the last rank has joined it. All ranks
#   take part in every collective, in the same order: the k-th to begin on one rank is the k-th on
#   all. It ends everywhere at the same moment, to within some microseconds; in the recorded job, to
#   within milliseconds.
# - **Clocks**: each trace has its own, and their zeros may be days apart.
#
# Write `overlap(traces)`. Of the time in which a rank communicates within a step, it returns three
# parts, which add up to it:
#
# | part | the rank communicates, and |
# |---|---|
# | `hidden` | computes meanwhile |
# | `waiting` | does not compute, and no collective of its own moves data: another rank is late |
# | `exposed` | does not compute, and data move in at least one of its collectives |
#
# The figures are to be right to 1 % of the step's communication; in the recorded job, to 5 %.
#
# *Before you start: in a trace, the mark `backward` takes 64 ms, and all-reduces go on for 62 ms of
# it. May you conclude that the communication is hidden?*

# %%
# %%answer overlap
def overlap(traces: list[list[dict]]) -> list[list[dict[str, float]]]:
    """How each rank's communication is spent: for each rank a list, for each of its steps a dict.

    `traces[r]` has rank r's events. A dict has "hidden", "waiting" and "exposed", in seconds. Steps
    are in the order of their numbers.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


# %%
check("overlap")

# %% [markdown]
# **Answer.** No. The mark `backward` ends only when the last all-reduce has ended, so it covers the
# communication whether anything hides it or not. What hides it is computing: operators that run at
# the same time.

# %% [markdown]
# ## Where next
#
# The next lecture is [04 Inside the frameworks](../notebooks/04_frameworks.ipynb); then come its [exercises](04_frameworks.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/03_profiling.ipynb) of these exercises.
