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
# # 00 Your machine
#
# Half an hour before the day: what this machine has, how several processes work together in one
# cell, how the exercises show what is wrong, and how work is handed to a cluster. If every cell here
# runs, the machine is ready for the day. Before most cells there is a question in italics: answer
# it, then run the cell. The answer is below the cell.

# %%
# %load_ext hpml
# %matplotlib inline
from hpml.publish import conclude, skip

# %% [markdown]
# ## What have I got?
#
# *Predict: how many cores may this notebook use? It can be fewer than the machine has.*

# %% tags=["nbval-ignore-output"]
import os

from IPython.display import Markdown

from hpml.doctor import facts
from hpml.machine.resources import usable_cores
from hpml.modules.m00_your_machine.lecture.facts import facts_as_markdown

Markdown(facts_as_markdown(facts()))

# %% tags=["nbval-ignore-output"]
conclude(
    usable_cores() >= 2,
    f"This notebook may use {usable_cores()} of {os.cpu_count()} cores. Two are enough for everything "
    "here.",
    f"this notebook may use {usable_cores()} of {os.cpu_count()} cores. With one, everything runs, but "
    "two ranks take turns, and nothing gets faster.",
)

# %% [markdown]
# A login node, a container or a SLURM job gives you a share of the machine; "usable" is your share.
# No exercise needs a GPU, MPI or the internet: where something is missing, the right-hand column has
# what that costs. `./hpml doctor` prints the same in a terminal, and what to do about it. Three names in
# the table may be new: *Gloo* is the library by which PyTorch's ranks talk where there are no GPUs;
# *user namespaces* let a program without special rights have a network or a list of files of its
# own; *bubblewrap* is a program that makes a sandbox from them.

# %% [markdown]
# ## A cluster in a cell
#
# A cell that begins with `%%ranks 2` does not run in this notebook. It runs in two new processes at
# the same time, two *ranks*, that share no memory. Each knows its number, `rank`, and how many there
# are, `world_size`. Everything else they have to send each other.
#
# *Predict: rank 0 brings 1, rank 1 brings 2. What does each of them print?*

# %%
# %%ranks 2
import torch
import torch.distributed as dist

number = torch.tensor(rank + 1)
dist.all_reduce(number)
print(f"I am one of {world_size}, and the sum is {number.item()}")

# %% [markdown]
# Both print 3: `all_reduce` adds up one tensor from each rank and leaves the sum with all of them.
# Data parallel training communicates with this one operation, on gradients. Change the 2 to a 4 and
# run the cell again: four ranks print 10.

# %% [markdown]
# ## What a wrong answer looks like
#
# The exercise of this module asks for just that sum, as a function `hello(number)` that is called
# on every rank. Here are three wrong answers. *Predict for each: is it wrong with one rank? With two?
# With three?*


# %%
from dataclasses import replace

from IPython.display import HTML

from hpml.checks import judge, render


def verdict_on(source):
    verdict = judge("hello_ranks", source, seed=1)
    # Without what differs each time: where threads were, and the calls over time
    return HTML(render.as_html(replace(verdict, stacks={}, timeline="")))


verdict_on("""
def hello(number):
    return number
""")

# %% [markdown]
# Right with one rank, wrong with two and more: the verdict names the smallest world size at which
# the answer failed, the rank, and what was seen there. Numbers are new each time you check, so
# there is nothing to memorise.

# %%
verdict_on("""
import torch
import torch.distributed as dist

def hello(number):
    parts = [torch.tensor(0) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.tensor(number))
    return parts[0].item() + parts[-1].item() if len(parts) > 1 else number
""")

# %% [markdown]
# Right with one and with two ranks, wrong with three: first and last are not all. Every answer is
# run on 1, 2, 3 and 4 ranks, because most mistakes hide at two.

# %%
verdict_on("""
import torch
import torch.distributed as dist

def hello(number):
    total = torch.tensor(number)
    if dist.get_rank() == 0:
        dist.all_reduce(total)
    return total.item()
""")

# %% [markdown]
# Right with one rank; with two and more it never ends. On a cluster the job would print nothing until
# a time limit ends it: PyTorch's, 30 minutes with Gloo, or the job's own. Here the check notices that
# no rank can go on and ends them all. It names the rank that waits and its line, and the rank that
# never made the call. Line 1 is the first line of the answer's cell. (In module 06 you find such a
# rank without the check, with a cluster's own tools.)

# %% [markdown]
# ## A cluster: programs start as jobs
#
# A cluster is many machines, *nodes*, with one network and one file system. You log in to a *login
# node*, which is there for editing and for asking; everybody is on it at once. Work is done on the
# *compute nodes*, and a program gets there as a *job*, which you hand to SLURM. SLURM keeps the
# queue: who gets which nodes, from when, and for how long.
#
# What follows is typed on a login node. Where this machine reaches no SLURM you see what was
# recorded. You can also make a cluster of virtual nodes on this machine (Linux, as root):
# `./hpml cluster up`, then run the cells again.

# %% tags=["nbval-ignore-output"]
import socket

from hpml.distributed_environment import expand_hosts
from hpml.modules.m00_your_machine.lecture.terminal import Terminal

terminal = Terminal()
if terminal.missing:
    skip("a real queue", terminal.missing)

# %% [markdown]
# *Predict: `sinfo` lists the nodes. Is the machine on which you typed it one of them?*

# %% tags=["nbval-ignore-output"]
terminal.type("sinfo")

# %% tags=["nbval-ignore-output"]
lines = terminal.output.splitlines()[1:]
nodes = [node for line in lines if line for node in expand_hosts(line.split()[-1])]
conclude(
    socket.gethostname() not in nodes,
    f"No. The nodes are {', '.join(nodes[:8])}, and this machine is none of them: a login node is not "
    "for work.",
    f"this machine, {socket.gethostname()}, is one of the nodes: the notebook runs on a compute node.",
)

# %% [markdown]
# Each line is a *partition*, a group of nodes under one name (a job that names none gets the one with
# the star). It has the time that a job may run there, and how many nodes are in which state: `idle`
# is free, `alloc` is in use, `mix` partly in use, `drain` and `down` take no jobs. `n[1-4]` means n1,
# n2, n3 and n4.
#
# ### A job, and its log file
#
# `sbatch` hands in a job and returns at once. With `--wrap` the job's script is one line; a longer
# one is a file, such as `slurm/00_hello.slurm`, whose `#SBATCH` lines are the same options.
#
# *Predict: two nodes, two tasks on each. `hostname` prints a machine's name: how many names come
# from this job, and how often is each of them printed?*

# %% tags=["nbval-ignore-output"]
job = terminal.submit(
    "sbatch --job-name=names --nodes=2 --ntasks-per-node=2 --time=5 --output=names-%j.log "
    "--wrap='hostname; echo and now with srun; srun hostname; sleep 3'"
)
terminal.type(f"sleep 1; squeue --jobs={job}")

# %% [markdown]
# The job has a number, by which everything else goes: its state (`PD` for pending, it waits; `R`, it
# runs; `CG`, it is completing), its time so far and its nodes. Nothing came back to the terminal;
# what a job prints goes to its log file, here `names-%j.log` with `%j` for the number.

# %% tags=["nbval-ignore-output"]
terminal.wait(job)
terminal.type(f"cat names-{job}.log")

# %% tags=["nbval-ignore-output"]
before, after = (part.split() for part in terminal.output.split("and now with srun"))
counts = {name: after.count(name) for name in sorted(set(after))}
conclude(
    len(before) == 1 and list(counts.values()) == [2, 2],
    f"{len(before) + len(after)} names: {before[0]} from the script, and from `srun` "
    f"{' and '.join(f'{count} × {name}' for name, count in counts.items())}.",
    f"the script printed {before}, srun {counts}.",
)

# %% [markdown]
# The script itself runs once, on the first node. The other node and the other tasks wait for `srun`,
# which starts its command once per task. A script that forgets `srun` has paid for four tasks and
# used one.
#
# ### An array: the same job many times
#
# Ten learning rates, ten seeds: one script, handed in once, with `--array`. Each part is a job of
# its own and knows its number from `SLURM_ARRAY_TASK_ID`.
#
# *Predict: four parts, and with `%2` at most two at a time. What does the queue show after a second:
# how many lines, and what is in the last column of a part that waits?*

# %% tags=["nbval-ignore-output"]
array = terminal.submit(
    "sbatch --job-name=sweep --array=0-3%2 --time=5 --output=sweep-%A_%a.log "
    "--wrap='sleep 4; echo part $SLURM_ARRAY_TASK_ID of array $SLURM_ARRAY_JOB_ID'"
)
terminal.type(f"sleep 1; squeue --jobs={array}")

# %% tags=["nbval-ignore-output"]
lines = [line.split() for line in terminal.output.splitlines()[1:] if line]
waiting = [line for line in lines if "PD" in line]
conclude(
    len(waiting) == 1,
    f"{len(lines)} lines: {len(lines) - 1} for parts that run, and one for those that wait, "
    f"`{waiting[0][0] if waiting else ''}`, with the reason `{waiting[0][-1] if waiting else ''}`.",
    f"{len(waiting)} of {len(lines)} lines are of parts that wait.",
)

# %% [markdown]
# The parentheses have the reason why a job waits. `JobArrayTaskLimit`: your own `%2`. `Resources`: it
# is next, and its nodes are not free yet. `Priority`: others come first. `Dependency`: it waits for
# another job. `PartitionConfig`: it asks for more than the partition has.

# %% tags=["nbval-ignore-output"]
terminal.wait(array)
terminal.type(f"tail -n 1 sweep-{array}_*.log")

# %% [markdown]
# With `%A` for the array's number and `%a` for the part's, each part has a log of its own. Without
# `%a` all four would write into one file. (Log files lie in the folder where you typed `sbatch`; for
# this page that is `build/jobs/terminal`.)
#
# *Predict: a job asks for more nodes than there are. What happens? And how do you take back a job
# that you no longer want?*

# %% tags=["nbval-ignore-output"]
terminal.type("sbatch --nodes=5000 --time=5 --job-name=huge --wrap=hostname; squeue --me")
refused = "Submitted" not in terminal.output
waits = "PD" in terminal.output.split()
terminal.type("scancel --me --name=huge; sleep 1; squeue --me")

# %% tags=["nbval-ignore-output"]
conclude(
    (refused or waits) and "huge" not in terminal.output.split(),
    f"It never runs. Here the job {'is refused at once' if refused else 'waits without end'}; other sites "
    f"{'let it wait' if refused else 'refuse it at once'}. After `scancel` it is not in the queue.",
    "the job is not where it should be: look at both queues above.",
)

# %% [markdown]
# When nothing happens, `squeue --me` lists your own jobs, with the reason in its last column.
# `scancel` takes a job back, also while it runs; at the end of its `--time` SLURM ends it.

# %% [markdown]
# ## Real images, or SYNTHETIC ones
#
# The course trains on CIFAR-10: 60,000 photographs of 32 × 32 pixels in ten classes. *Which images
# does this machine have?*

# %% tags=["nbval-ignore-output"]
import matplotlib.pyplot as plt

from hpml.data import load

data = load()
kind = "SYNTHETIC images: accuracies say nothing about CIFAR-10" if data.synthetic else "CIFAR-10"
figure, axes = plt.subplots(2, 10, figsize=(9, 2.3), layout="constrained")
for i, place in enumerate(axes.flat):
    place.imshow(data.train.images[[i]][0].transpose(1, 2, 0))
    place.set_title(data.classes[data.train.labels[i]], fontsize=8)
    place.axis("off")
figure.suptitle(f"The first of {len(data.train):,} training images: {kind}", fontsize=10)
plt.show()

# %% [markdown]
# The title of the picture has the answer. Where there are no images, the course makes some: in
# files of the same format, with ten classes that a network can learn, and with SYNTHETIC beside
# every plot and number that rests on them. Their accuracies say nothing about CIFAR-10. `./hpml
# data` downloads the real images (170 MB), and `HPML_DATA` names a folder that has them.

# %% [markdown]
# ## Your turn
#
# Open `exercises/00_your_machine.ipynb`, write `hello` and check it. The other two are *more*, for an
# evening: `job_script`, which is submitted to a cluster where there is one, and `read_queue`. Or stay
# in the terminal, where the same exercises are plain files:
#
# ```
# ./hpml list                                    what there is, and how far you are
# ./hpml watch exercises/00_your_machine.py      checks each time you save
# ./hpml check exercises/00_your_machine.py      checks once
# ./hpml hint hello_ranks                        where to begin
# ```
#
# On a cluster, `sbatch slurm/00_hello.slurm` runs the same sum on the ranks that SLURM starts. If
# your cluster wants an account or a partition, write it into `slurm/site.sh`, and nowhere else.

# %% [markdown]
# ## What to take home
#
# 1. Ranks are processes that share nothing: whatever one has to know of another is sent.
# 2. An answer that is right on two ranks can be wrong on three, so every answer is run on 1 to 4.
# 3. On a cluster you hand in a job; it waits, runs, and its output is in a file. In the job, `srun`
#    starts the ranks.
#
# **Where to read on**
#
# - SLURM's [quick start](https://slurm.schedmd.com/quickstart.html), and its list of
#   [reasons](https://slurm.schedmd.com/job_reason_codes.html) why a job waits
# - PyTorch's [tutorial on distributed applications](https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html),
#   up to "Collective Communication"
# - your own site's pages: its partitions, its file systems, its rules for login nodes

# %% [markdown]
# ## Where next
#
# The [exercises](../exercises/00_your_machine.ipynb) of this module: first `hello_ranks`; for the evening `job_script`, `read_queue`.
