"""Ranks of a job step, with a shell in place of srun, and what is said of its end. On a cluster:
tests/cluster."""

import os
import re
import sys
from pathlib import Path

import pytest

from hpml.ranks import launch
from hpml.ranks.parent import warm
from hpml.ranks.parent.job_step import without_speaker
from hpml.ranks.parent.slurm_ranks import SlurmRanks

# As srun does: starts the tasks, reports the one that was killed some time later, ends them all
SRUN = f"""
echo 'slurmstepd: error: Unable to create TMPDIR'
export SLURM_NODEID=0 SLURM_PROCID
for SLURM_PROCID in 0 1; do {sys.executable} -m hpml.ranks.agent.agent & done
wait -n || {{ sleep 0.5; echo 'srun: error: n1: task 1: Killed'; kill $(jobs -p); }}
wait
"""


def far(drive):
    """The launch of a drive on two ranks of a step, which takes their numbers."""
    reported = []
    words = ["bash", "-c", SRUN]
    ours = SlurmRanks(words, dict(os.environ), os.getcwd(), reported.append, lambda: None)
    with warm.using(ours):
        seen = launch(drive, 2, inputs=[0, 1])
    assert re.fullmatch("2 tasks on 1 node: .+", reported[0])
    return seen


def meets():
    """A drive, made here so that it is sent by value."""

    def drive(rank):
        import torch.distributed as dist

        dist.barrier()
        return rank

    return drive


def loses_its_agent(sign):
    """A drive, made here so that it is sent by value. Rank 0 writes its folder to `sign`."""

    def drive(rank):
        import os
        import signal
        import time

        import torch.distributed as dist

        if rank:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(30)
        with open(sign, "w") as file:
            file.write(os.getcwd())
        dist.barrier()

    return drive


def test_tasks_are_ranks():
    assert far(meets()).values == (0, 1)


def test_a_task_that_is_gone_is_the_cause_and_not_what_the_others_raise_or_an_older_line(tmp_path):
    says = "the task of rank 1 on .* is gone: n1: task 1: Killed$"
    with pytest.raises(warm.ServerDied, match=says):
        far(loses_its_agent(str(tmp_path / "folder")))
    assert not Path((tmp_path / "folder").read_text()).parent.exists()  # the other has removed it


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 12:00 DUE TO TIME LIMIT ***",
            "STEP 7.0 ON n1 CANCELLED AT 12:00 DUE TO TIME LIMIT",
        ),
        ("srun: error: Invalid --time specification", "Invalid --time specification"),
        ("srun: fatal: SLURM_MEM_PER_CPU: not two", "SLURM_MEM_PER_CPU: not two"),
        ("slurm/site.sh: no python with torch", "slurm/site.sh: no python with torch"),
    ],
)
def test_who_says_it_is_left_out(line, said):
    assert without_speaker(line) == said
