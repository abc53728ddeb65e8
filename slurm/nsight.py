"""Run a command under Nsight Systems on two ranks: what slurm/03_profile_gpu.slurm starts.

    python slurm/nsight.py FOLDER COMMAND...

Rank 0 and the last rank are traced; every other rank runs the command and nothing else. A report is
written to the node's own disk (TMPDIR), and moved to FOLDER/rank3.nsys-rep when the command has
ended. What is traced: calls of CUDA and the kernels that they start, ranges that libraries mark
(NVTX; NCCL marks its calls), and calls of the operating system that may block. No stacks are
sampled. Options: Nsight Systems User Guide, "CLI Profile Command Switch Options",
https://docs.nvidia.com/nsight-systems/UserGuide
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

folder, command = Path(sys.argv[1]), sys.argv[2:]
rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
if rank not in (0, ranks - 1):
    os.execvp(command[0], command)  # does not come back
with tempfile.TemporaryDirectory(prefix="hpml-nsight-") as scratch:
    report = Path(scratch, f"rank{rank}.nsys-rep")
    traced = ["nsys", "profile", "--trace=cuda,nvtx,osrt", "--sample=none", f"--output={report}"]
    status = subprocess.run([*traced, *command]).returncode
    if report.is_file():  # also of a command that failed
        shutil.move(report, folder / report.name)
raise SystemExit(status if status >= 0 else 128 - status)
