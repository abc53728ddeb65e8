"""What a job step says of its end. On a cluster: tests/cluster."""

import pytest

from hpml.ranks.slurm.step import without_speaker


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
