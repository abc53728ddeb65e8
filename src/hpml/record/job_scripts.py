"""Each *_gpu.slurm's own command line on this machine, where no SLURM has to be.

The script runs as it is, in bash. Its `srun` is a few lines that start as many processes as there
are GPUs and give them the variables that a job step has.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from hpml.paths import CHECKOUT
from hpml.record import kept
from hpml.record.kept import Place

SRUN = r"""#!/bin/bash
while [[ $1 == -* ]]; do shift; done
export SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=$SLURM_NTASKS
export SLURM_STEP_TASKS_PER_NODE=$SLURM_NTASKS SLURM_STEP_NODELIST=localhost SLURM_NODEID=0
ranks=()
for ((rank = 0; rank < SLURM_NTASKS; rank++)); do
    SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" &
    ranks+=($!)
done
status=0
for rank in "${ranks[@]}"; do wait "$rank" || status=$?; done
exit "$status"
"""
TRAIN = ("--epochs", "1", "--samples", "2000", "--test-samples", "500")
# What makes a script short, by the module that it starts
SHORT = {
    "hpml.train": TRAIN,
    "hpml.bench.allreduce_study": ("--sizes", "4,1000000", "--repeats", "3"),
    "hpml.bench.eager_compiled": ("--batches", "4", "--rounds", "1"),
    "hpml.bench.scaling_study": ("--steps", "3"),
}
# On a CPU shorter still: later options win
ON_CPU = {
    "hpml.train": ("--samples", "200", "--batch-size", "25", "--test-samples", "50"),
    "hpml.bench.eager_compiled": ("--backend", "aot_eager", "--widths", "8,8,8"),
    "hpml.bench.scaling_study": ("--batch", "4", "--widths", "8,8,8"),
}
LIMIT = 60  # seconds of a script
LINES = 12  # of output kept


def measure(place: Place) -> dict[str, Any]:
    """By script: seconds, exit code and last lines of output; or why it was left out."""
    found: dict[str, Any] = {}
    for path in sorted((CHECKOUT / "slurm").glob("*_gpu.slurm")):
        if path.name == "record_gpu.slurm":
            continue
        text = path.read_text(encoding="utf-8")
        ranks = torch.cuda.device_count() if place.gpu else 2
        if why := _lacking(text, ranks):
            found[path.name] = {"left_out": why}
            print(f"    {path.name}: left out: {why}", flush=True)
            continue
        one = found[path.name] = _run(text if place.gpu else _on_cpu(text), ranks, place)
        told = "done" if one["code"] == 0 else f"exit code {one['code']}"
        print(f"    {path.name}: {told} in {one['seconds']:.0f} s", flush=True)
        place.so_far(found)
    return found


def _on_cpu(text: str) -> str:
    return text.replace("--device cuda", "--device cpu")


def _lacking(text: str, ranks: int) -> str:
    """Why a script cannot run here; "" where it can."""
    if "--backend horovod" in text:
        found = importlib.util.find_spec("horovod")
        if found is None or found.origin is None:  # a folder of that name is not a package
            return "there is no Horovod"
    for program in ("mpirun", "horovodrun"):
        if f"{program} -" in text and not shutil.which(program):
            return f"there is no {program}"
    if "allreduce_study" in text and ranks < 2:
        return "it needs two GPUs"
    return ""


def _run(text: str, ranks: int, place: Place) -> dict[str, Any]:
    module = next(module for module in SHORT if module in text)
    short = SHORT[module] + (() if place.gpu else ON_CPU.get(module, ()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = folder / "bin"
        programs.mkdir()
        (programs / "srun").write_text(SRUN)
        (programs / "srun").chmod(0o755)
        # Not a link: beside one, Python does not find the environment that it belongs to.
        (programs / "python").write_text(f'#!/bin/bash\nexec {shlex.quote(sys.executable)} "$@"\n')
        (programs / "python").chmod(0o755)
        (folder / "slurm").symlink_to(CHECKOUT / "slurm")
        (folder / "job.slurm").write_text(text)
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": f"{CHECKOUT / 'src'}:{os.environ.get('PYTHONPATH', '')}",
            "VIRTUAL_ENV": str(programs),  # so that the script activates no other
            "OMPI_ALLOW_RUN_AS_ROOT": "1",  # as in most containers
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "MASTER_ADDR": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
            "SLURM_JOB_ID": str(os.getpid()),  # the port follows from it
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_NTASKS": str(ranks),
            "SLURM_NTASKS_PER_NODE": str(ranks),
            "SLURM_CPUS_PER_TASK": str(max(1, len(os.sched_getaffinity(0)) // ranks)),
            "SCALING_STUDY": "record",  # one job of a study: it submits no others
        }
        if place.images:
            environment["HPML_DATA"] = place.images
        began = time.perf_counter()
        # coreutils' timeout ends the script's ranks as well, and so the next one has the machine.
        ended = subprocess.run(
            ["timeout", "--kill-after=5", str(LIMIT), "bash", "job.slurm", *short],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        return {
            "seconds": time.perf_counter() - began,
            "ranks": ranks,
            "arguments": list(short),
            "code": ended.returncode,
            "output": kept.without_places(ended.stdout, name).splitlines()[-LINES:],
        }
