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
# # 00 Your machine: exercises
#
# Three short exercises, to see how all the others work. The cell that starts with `%%answer` is
# yours; the cell below it checks what you wrote. **An answer cell stands alone**: it brings its own
# imports and sees nothing of the other cells. The cells below it can use what it defines. *Before
# you start* is a question to think about first; its answer is below the check.
#
# Stuck? `check.hint()` in a cell of your own gives a hint, and each time the next one.
#
# An answer may import Python's standard library, `numpy`, `torch` and `tqdm`. Nothing else, and
# nothing of `hpml`.

# %%
# %load_ext hpml
from hpml import check

# %% [markdown]
# ## `hello_ranks`: give a number, get the sum
#
# **To write:** the sum of all ranks' numbers, on every rank. **Allowed:** anything that an answer
# may import.
#
# `hello` is called once on every rank, each time with another number. Return the sum of the numbers
# of all ranks, on every rank, as an `int`. With three ranks and the numbers 7, 20 and 3, all three
# calls return 30.
#
# Each rank knows only its own number, so the ranks must communicate. `dist.all_reduce(tensor)` adds
# one tensor from each rank, and replaces the tensor's content by the sum, on every rank. The
# process group exists already, so `dist.get_rank()` and `dist.get_world_size()` work.
#
# *Before you start: rank 0 calls `all_reduce` and rank 1 does not. What does rank 0 do?*

# %%
# %%answer hello_ranks
import torch
import torch.distributed as dist


def hello(number: int) -> int:
    """The sum of `number` over all ranks, on every rank."""
    ### BEGIN SOLUTION
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
    ### END SOLUTION


# %%
check("hello_ranks")

# %% [markdown]
# **Answer.** It waits, and never returns. A collective is complete when every rank has called it, and
# rank 1 never does. Try it: put the call under `if dist.get_rank() == 0:`, run the answer cell and
# check again.
#
# `def hello(number): return number` is right for one rank and for no more. That is why an answer
# whose ranks communicate is run on 1, 2, 3 and 4 ranks.

# %% [markdown]
# ## `job_script`: ask for what a job needs
#
# **To write:** the text of the job script. **Allowed:** anything that an answer may import.
#
# Return the text of a job script, as one `str`. It says how many `nodes` the job needs, how many
# tasks on each, how many cores for each task, and after how many `minutes` it is ended. The job is
# an array of `parts` parts, numbered from 0, and each part writes a log of its own:
# `NAME-ARRAY_PART.log`, with the job's `name`, the array's job number and the part's number, so
# `sweep-4711_0.log` for the first part of job 4711. On every node, each task runs `command`, once.
#
# `slurm/00_hello.slurm` is a script to begin with; `man sbatch` has all options, and how they write
# times, arrays and file names. What your lines ask for is judged anywhere. Whether the job does what
# it should is seen by submitting it, on your cluster or on the one that `./hpml cluster up` makes;
# where no SLURM answers, the check says that it could not judge that claim.
#
# *Before you start: a script that has `hostname` in its last line gets three nodes with two tasks
# each. How many lines does it print? And with `srun hostname`?*


# %%
# %%answer job_script
def job_script(
    name: str,
    nodes: int,
    tasks_per_node: int,
    cpus_per_task: int,
    minutes: int,
    parts: int,
    command: str,
) -> str:
    """The text of a job script for an array of `parts` parts, each with `nodes` nodes."""
    ### BEGIN SOLUTION
    return f"""\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={tasks_per_node}
#SBATCH --cpus-per-task={cpus_per_task}
#SBATCH --time={minutes}
#SBATCH --array=0-{parts - 1}
#SBATCH --output=%x-%A_%a.log
srun {command}
"""
    ### END SOLUTION


# %% tags=["nbval-ignore-output"]
check("job_script")

# %% [markdown]
# **Answer.** One line, and six. The script itself runs once, on the first of the nodes; the other
# nodes are idle until `srun` starts the tasks. A job that has three nodes and uses one looks like
# any other in the queue, and no message warns you.
#
# The other silent mistake is a request that sbatch does not read: `# SBATCH`, with a space, is a
# comment, and so is every `#SBATCH` after the first command.

# %% [markdown]
# ## `read_queue`: who waits, what was used, what failed
#
# **To write:** the reader of the two texts. **Allowed:** anything that an answer may import.
#
# SLURM prints tables. `squeue` lists the jobs of all users that wait or run. `sacct` also lists
# jobs of the past, here your own, as printed by `sacct --parsable2
# --format=JobID,JobName,State,ExitCode,NNodes,Elapsed`:
#
# ```
#              JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
#     359955_[7-9%2]    course    sweep wilhelmi PD       0:00      2 (JobArrayTaskLimit)
#             360138    course    train wilhelmi PD       0:00      4 (ReqNodeNotAvail, UnavailableNodes:n7)
#           359955_6    course    sweep wilhelmi  R 1-02:03:04      2 n[5-6]
#           359955_5    course    sweep wilhelmi CG   12:34:56      2
#             360142    course    train   joanna PD       0:00      4 (Priority)
#
# JobID|JobName|State|ExitCode|NNodes|Elapsed
# 359955_4|sweep|TIMEOUT|0:0|2|1-00:00:00
# 359955_4.batch|batch|CANCELLED|0:0|1|1-00:00:00
# 359955_6|sweep|RUNNING|0:0|2|1-02:03:04
# 360101|big|CANCELLED by 1000|0:0|11|08:28:39
# ```
#
# Return a dict with three entries. `waiting` has the id of each of the user's jobs that waits, as
# squeue prints it, and the reason without its parentheses. (squeue prints the first eight characters
# of a user's name; `user` is the whole name.) `node_hours` is the sum, over all jobs in
# sacct's text that have ended in whatever way, of nodes × hours. `failed` lists the parts of job
# arrays that have to run again, by id, in sacct's order: those that failed, ran out of time or
# memory, or lost a node. A cancelled part is not among them: a person has stopped it.
#
# *Before you start: how many node-hours has the excerpt above used?*


# %%
# %%answer read_queue
def read_queue(squeue: str, sacct: str, user: str) -> dict:
    """What waits and why, the node-hours used, and what failed, out of the two texts."""
    ### BEGIN SOLUTION
    waiting = {}
    for line in squeue.splitlines()[1:]:
        fields = line.split(None, 7)
        if fields[3] == user[:8] and fields[4] == "PD":
            waiting[fields[0]] = fields[7][1:-1]

    node_seconds, failed = 0, []
    for line in sacct.splitlines()[1:]:
        job, _, state, _, nodes, elapsed = line.split("|")
        if "." in job or state in ("RUNNING", "PENDING"):
            continue
        days, _, clock = elapsed.rpartition("-")
        hours, minutes, seconds = (int(part) for part in clock.split(":"))
        hours += 24 * int(days or 0)
        node_seconds += int(nodes) * (3600 * hours + 60 * minutes + seconds)
        if "_" in job and state in ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"):
            failed.append(job)
    return {"waiting": waiting, "node_hours": node_seconds / 3600, "failed": failed}
    ### END SOLUTION


# %%
check("read_queue")

# %% [markdown]
# **Answer.** Two nodes for 24 hours and eleven nodes for 8 hours, 28 minutes and 39 seconds: 141.3.
# The line that ends in `.batch` is a *step* inside its job and does not count again; the running
# part has not ended.
#
# Most of the work here is to read tables that are made for people. Both programs can print what is
# easier to read: `squeue --me --noheader --format="%i|%T|%r"`, `sacct --allocations` for jobs
# without their steps, and where SLURM is new enough `--json`.

# %% [markdown]
# ## Where next
#
# The next lecture is [01 Parallel computing for deep learning](../notebooks/01_parallel_sgd.ipynb); then come its [exercises](01_parallel_sgd.ipynb). `./hpml list` in a terminal shows what is done and what is left.
#
# The [lecture](../notebooks/00_your_machine.ipynb) of these exercises.
