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
# Ten minutes before the day: what this machine has, how several processes work together in one
# cell, and how the exercises tell you what is wrong. If every cell here runs, so does the rest.

# %%
# %load_ext hpml
# %matplotlib inline
from dataclasses import replace

import matplotlib.pyplot as plt
from IPython.display import HTML, Markdown

from hpml.checks import judge
from hpml.checks.render import as_html
from hpml.data import load
from hpml.measure.machine import facts
from hpml.measure.show import facts_as_markdown

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
# Open `exercises/00_your_machine.ipynb`, write `hello` and check it. Or stay in the terminal, where
# the same exercises are plain files:
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
