"""A job script's `python` is the one that records, with its packages."""

from pathlib import Path

from hpml.record import job_scripts
from hpml.record.kept import Place

SCRIPT = """
source slurm/site.sh # as for hpml.train
srun --ntasks=1 "${container[@]}" python -c 'import numpy, torch; print(torch.__version__)'
"""


def test_a_script_has_the_packages_of_this_environment():
    import torch

    found = job_scripts._run(SCRIPT, 2, Place("cpu", Path()))
    assert found["code"] == 0, found["output"]
    assert found["output"] == [torch.__version__] * 2
