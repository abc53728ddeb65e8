"""`%%ranks 8 --on slurm`: the cell's ranks are tasks of a job step, on the cluster's nodes.

In an allocation (a job's own terminal, a notebook that runs in a job) the step is one of its own.
Elsewhere srun asks for an allocation with the settings of slurm/site.sh, and gives it back at the
end.
"""

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from hpml.cluster import job_script, queue
from hpml.errors import UserError
from hpml.notebook.argument_types import count
from hpml.paths import CHECKOUT
from hpml.ranks.parent import warm
from hpml.ranks.parent.leash import Leash
from hpml.ranks.parent.slurm_ranks import SlurmRanks

# What only this machine's own ranks can have
_HERE_ALONE = {
    "link": "--link",
    "memory": "--memory",
    "horovod": "--horovod",
    "tensorflow": "--tensorflow",
    "live_tensors": "--live-tensors",
}
# Above all the software: what the job scripts do, too
_TASK = 'source slurm/site.sh && exec "${container[@]}" python -m hpml.ranks.agent.agent'


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--on", choices=("slurm",), help="ranks on the nodes of a SLURM cluster")
    parser.add_argument("--nodes", type=count, help="with --on slurm: on so many nodes")
    parser.add_argument("--time", help="with --on slurm: of the allocation, as sbatch takes it")
    parser.add_argument("--gpus", type=count, help="with --on slurm: of each rank")


def check(options: argparse.Namespace) -> None:
    """Raises UserError for options that do not go together."""
    if options.on is None:
        for name in ("nodes", "time", "gpus"):
            if getattr(options, name) is not None:
                raise UserError(f"--{name} goes with --on slurm")
        return
    for name, option in _HERE_ALONE.items():
        if getattr(options, name):
            raise UserError(f"{option} is for ranks on this machine: leave it out, or --on slurm")


@contextlib.contextmanager
def ranks(options: argparse.Namespace) -> Iterator[Leash | None]:
    """Launches in this context take their ranks from where the options say.

    With the leash that they need: the time limit counts from when the ranks begin, not from when
    they are asked for. Raises UserError where there is no SLURM.
    """
    if options.on is None:
        yield None
        return
    leash = Leash()
    slurm = queue.find()
    inside = bool(os.environ.get("SLURM_JOB_ID"))
    ours = SlurmRanks(
        srun(options, inside),
        {
            **environment(inside),
            **slurm.settings,
            **queue.this_python(),
            **({} if inside else _settings(options)),
        },
        str(CHECKOUT),
        report=lambda line: print(line, flush=True),
        began=leash.alone,
    )
    with warm.using(ours):  # type: ignore[arg-type]  # what a launch uses of a server, it has
        yield leash


def srun(options: argparse.Namespace, inside: bool) -> list[str]:
    """The srun of these options, `inside` an allocation or not, with the command of its tasks."""
    words = ["srun", f"--ntasks={options.world_size}", f"--cpus-per-task={options.threads or 1}"]
    words += ["--job-name=hpml-ranks", "--mpi=none", "--input=none"]
    if inside:
        words.append("--overlap")  # the notebook's own step may have taken all there is
    elif options.time:
        words.append(f"--time={options.time}")
    if options.nodes:
        words.append(f"--nodes={options.nodes}")
        words.append(f"--ntasks-per-node={-(-options.world_size // options.nodes)}")
    if options.gpus:
        words.append(f"--gpus-per-task={options.gpus}")
    return [*words, "bash", "-c", _TASK]


def environment(inside: bool) -> dict[str, str]:
    """This process's, `inside` an allocation without what slurm/site.sh takes out there: srun
    refuses two of the memories, and a binding to CPUs is of the notebook's own step."""
    ours = ("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_CPU_BIND")
    return {k: v for k, v in os.environ.items() if not (inside and k.startswith(ours))}


def _settings(options: argparse.Namespace) -> dict[str, str]:
    """What site.sh says of an allocation, as srun reads it. None that counts GPUs: --gpus does."""
    name = "ranks_gpu.slurm" if options.gpus else "ranks.slurm"
    found = job_script.site_settings(job_script.JobScript(Path(name), {}), CHECKOUT)
    return {
        key.replace("SBATCH_", "SLURM_", 1): value
        for key, value in found.items()
        if key not in ("SBATCH_GPUS_PER_NODE", "SBATCH_GRES")
    }
