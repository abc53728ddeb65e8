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
# cell, how the exercises tell you what is wrong, and how work is handed to a cluster. If every cell here runs, so does the rest.

# %%
# %load_ext hpml
# %matplotlib inline
from dataclasses import replace

import matplotlib.pyplot as plt
from IPython.display import HTML, Markdown

from hpml.checks import judge
from hpml.checks.render import as_html
from hpml.cluster.terminal import Terminal
from hpml.data import load
from hpml.doctor import facts
from hpml.publish import skip
from hpml.notebook.facts import facts_as_markdown

# %% [markdown]
# ## What have I got?
#
# *Predict: how many cores may this notebook use? It can be fewer than the machine has.*

# %% tags=["nbval-ignore-output"]
Markdown(facts_as_markdown(facts()))

# %% [markdown]
# A login node, a container or a SLURM job hands out a share of the machine, and "usable" is yours.
# Two cores are enough for everything here, and nothing needs a GPU, MPI or the internet: whatever
# is lacking has its price in the right-hand column. `./hpml doctor` says the same in a terminal,
# and what to do about it.

# %% [markdown]
# ## A cluster in a cell
#
# A cell that begins with `%%ranks 2` does not run in this notebook. It runs in two processes of its
# own at once, two *ranks*, that share no memory. They know their number, `rank`, and how many they
# are, `world_size`; to learn anything else of each other they must send it.
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
# That one operation is most of data parallel training, where the tensors are gradients. Change the
# 2 to a 4 and run the cell again.

# %% [markdown]
# ## What a wrong answer looks like
#
# The exercise of this module asks for just that sum, as a function `hello(number)` that is called
# on every rank. Here is what three people wrote before you. *Predict for each: is it wrong with one
# rank? With two? With three?*


# %%
def verdict_on(source):
    verdict = judge("hello_ranks", source, seed=1)
    return HTML(as_html(replace(verdict, stacks={})))


verdict_on("""
def hello(number):
    return number
""")

# %% [markdown]
# Right with one rank, wrong with two: the verdict names the smallest world size at which the answer
# failed, the rank, and what was seen there. Numbers are new each time you check, so there is
# nothing to memorise.

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
# This one never ends. On a cluster it would sit in the queue's time limit and say nothing; here the
# check notices that no rank can move any more, ends them all, and says who waits where and who
# never came. A line number is that of the answer's cell.

# %% [markdown]
# ## A cluster: nobody starts programs there
#
# A cluster is many machines, *nodes*, with one network and one file system. You log in to a *login
# node*, which is there for editing and for asking; everybody is on it at once. Work is done on the
# *compute nodes*, and a program gets there by asking SLURM for them, as a *job*. SLURM keeps the
# queue: who gets which nodes, from when, and for how long.
#
# What follows is typed on a login node. Where this machine reaches no SLURM you see what was
# recorded, and can make a cluster of virtual nodes of this machine (Linux, as root):
# `./hpml cluster up`, then run the cells again.

# %% tags=["nbval-ignore-output"]
terminal = Terminal()
if terminal.missing:
    skip("a real queue", terminal.missing)

# %% [markdown]
# *Predict: `sinfo` lists the nodes. Will the machine be among them on which you typed it?*

# %% tags=["nbval-ignore-output"]
terminal.type("sinfo")
# %% [markdown]
# It is not: a login node is not for work. What is listed are *partitions*, groups of nodes under
# one name (the one with the star is taken when you name none), how long a job may run there, and how
# many nodes are in which state: `idle` is free, `alloc` and `mix` are in use wholly and in part,
# `drain` and `down` are out of order. With `n[1-4]` SLURM means n1, n2, n3 and n4.
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
# %% [markdown]
# Five names. The script itself runs once, on the first node; the other node and the other tasks wait
# for `srun`, which starts its command once per task. A script that forgets it has paid for four
# tasks and used one.
#
# ### An array: the same job many times
#
# Ten learning rates, ten seeds: one script, handed in once, with `--array`. Each part is a job of
# its own and knows its number from `SLURM_ARRAY_TASK_ID`.
#
# *Predict: four parts, `%2` of them at a time. What does the queue show after a second: how many
# lines, and what is in the last column of a part that waits?*

# %% tags=["nbval-ignore-output"]
array = terminal.submit(
    "sbatch --job-name=sweep --array=0-3%2 --time=5 --output=sweep-%A_%a.log "
    "--wrap='sleep 4; echo part $SLURM_ARRAY_TASK_ID of array $SLURM_ARRAY_JOB_ID'"
)
terminal.type(f"sleep 1; squeue --jobs={array}")
# %% [markdown]
# Parts that wait share a line, `[2-3%2]`; those that run have one each. In parentheses stands why a
# job waits: `JobArrayTaskLimit` is your own `%2`, `Resources` that it is next and nodes are not free
# yet, `Priority` that others come before it, `Dependency` that it waits for another job.

# %% tags=["nbval-ignore-output"]
terminal.wait(array)
terminal.type(f"tail -n 1 sweep-{array}_*.log")
# %% [markdown]
# With `%A` for the array's number and `%a` for the part's, each part has a log of its own. Without
# `%a` all four would write into one file. (Log files lie in the folder where you typed `sbatch`; for
# this page that is `build/jobs/terminal`.)
#
# *Predict: can a job be had with more nodes than there are? And what becomes of one that is no
# longer wanted?*

# %% tags=["nbval-ignore-output"]
terminal.type("sbatch --nodes=5000 --time=5 --job-name=huge --wrap=hostname; squeue --me")
terminal.type("scancel --me --name=huge; sleep 1; squeue --me")

# %% [markdown]
# A job that can never run is refused at once or waits without end, as the site has it. When nothing
# happens, `squeue --me`, your own jobs, has the reason in its last column. `scancel` takes a job
# away, also while it runs; at the end of its `--time` SLURM does the same by itself.

# %% [markdown]
# ## Real images, or SYNTHETIC ones
#
# The course trains on CIFAR-10: 60,000 photographs of 32 × 32 pixels in ten classes. *Which images
# does this machine have?*

# %% tags=["nbval-ignore-output"]
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
# Where there are no images, the course makes some: in the same files, with ten classes that a
# network has to learn, and with SYNTHETIC in the title of every plot and beside every number that
# came of them. Speeds and curves have the same shape with both; accuracies of one say nothing about
# the other. `./hpml data` downloads the real ones (170 MB), and `HPML_DATA` names a folder that has
# them.

# %% [markdown]
# ## Your turn
#
# Open `exercises/00_your_machine.ipynb`, write `hello` and check it; then `job_script`, which is
# submitted to a cluster where there is one, and `read_queue`. Or stay in the terminal, where the same
# exercises are plain files:
#
# ```
# ./hpml list                                    what there is, and how far you are
# ./hpml watch exercises/00_your_machine.py      checks each time you save
# ./hpml check exercises/00_your_machine.py      checks once
# ./hpml hint hello_ranks                        where to begin
# ```
#
# On a cluster, `sbatch slurm/00_hello.slurm` runs the same sum on the ranks that SLURM starts. If
# your cluster wants an account or a partition, `slurm/site.sh` is the one file to say so in.
