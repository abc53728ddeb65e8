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
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `instrument`: a profiler around the loop
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
from torch.profiler import ProfilerActivity, profile, record_function, schedule


def train(training, steps: int, wait: int, warmup: int, active: int, folder: str) -> None:
    """`steps` steps of `training`, of which `active` are recorded, after `wait` and `warmup`.

    Each rank leaves one trace of torch.profiler in `folder`, with "rank" and its number in the
    name, with shapes, memory and the four parts "loading", "forward", "backward", "optimizer".
    """
    ### BEGIN SOLUTION
    path = f"{folder}/rank{dist.get_rank()}.json"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(steps):
            with record_function("loading"):
                batch = training.load()
            with record_function("forward"):
                loss = training.forward(batch)
            with record_function("backward"):
                training.backward(loss)
            with record_function("optimizer"):
                training.update()
            profiler.step()
    ### END SOLUTION


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
# ## `fix_the_loader`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer fix_the_loader
def fix_the_loader():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("fix_the_loader")

# %% [markdown]
# ## `step_breakdown`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer step_breakdown
def step_breakdown():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("step_breakdown")

# %% [markdown]
# ## `find_the_straggler`: what it is about
#
# What goes in, what comes out, and a question to think about first.


# %%
# %%answer find_the_straggler
def find_the_straggler():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("find_the_straggler")

# %% [markdown]
# ## `overlap`: hidden, waiting, exposed
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
# r's list of events, in no order.
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
# - **The rank communicates** while an event goes on whose name begins with `gloo:`, on whichever
#   thread; there may be several at a time. The event begins when the rank joins the collective.
# - **The rank works** while an op goes on, on whichever thread: an event of category `cpu_op`,
#   unless its name begins with `c10d::` (such an op only starts a collective).
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
# | `hidden` | works meanwhile |
# | `waiting` | does not work, and no collective of its own moves data: another rank is late |
# | `exposed` | does not work, and data move in at least one of its collectives |
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
    ### BEGIN SOLUTION
    collectives = [sorted(spans(events, communicates)) for events in traces]
    # The rank that joins a collective last does not wait: its event is the transfer alone.
    transfers = [min(end - begin for begin, end in same) for same in zip(*collectives, strict=True)]
    found = []
    for events, own in zip(traces, collectives, strict=True):
        busy, working = merged(own), merged(spans(events, works))
        moving = merged(
            (end - transfer, end) for (_, end), transfer in zip(own, transfers, strict=True)
        )
        found.append([])
        for step in sorted(spans(events, is_step)):
            communication = seconds(common(busy, [step]))
            hidden = seconds(common(common(busy, working), [step]))
            in_step = common(moving, [step])
            exposed = seconds(in_step) - seconds(common(in_step, working))
            waiting = communication - hidden - exposed
            found[-1].append({"hidden": hidden, "waiting": waiting, "exposed": exposed})
    return found


def spans(events, wanted):
    """Begin and end of the events that are wanted, in microseconds."""
    return [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and wanted(e)]


def communicates(event):
    return event["name"].startswith("gloo:")


def works(event):
    return event["cat"] == "cpu_op" and not event["name"].startswith("c10d::")


def is_step(event):
    return event["name"].startswith("ProfilerStep#")


def merged(intervals):
    """The same moments, as intervals that do not overlap, in order."""
    whole = []
    for begin, end in sorted(intervals):
        if whole and begin <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((begin, end))
    return whole


def common(some, others):
    """The moments of both, each given in intervals that do not overlap."""
    pairs = ((max(a, c), min(b, d)) for a, b in some for c, d in others)
    return [(begin, end) for begin, end in pairs if begin < end]


def seconds(intervals):
    return sum(end - begin for begin, end in intervals) / 1e6
    ### END SOLUTION


# %%
check("overlap")

# %% [markdown]
# **Answer.** No. The mark `backward` ends only when the last all-reduce has ended, so it covers the
# communication whether anything hides it or not. What hides it is work: ops that go on at the same
# time.
