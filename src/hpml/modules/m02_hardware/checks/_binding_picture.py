"""The picture of an answer to binding_plan: its plan on a node, and what a SLURM here binds."""

import io
import re
import subprocess
from types import ModuleType
from typing import Any

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.errors import UserError
from hpml.machine.topology import Core, Gpu, Topology, read
from hpml.ranks import launch

LIMIT = 10.0  # seconds
SOCKETS, CORES, THREADS = 2, 8, 2
GPUS, RESERVED = [1, 0, 1, 0], [0]
# For two CPUs, which a machine must have that runs our own SLURM: the plan is then none that SLURM
# would make unasked
SWAPPED = [1, 0]


def node() -> list[dict[str, int]]:
    """Two sockets of eight cores, one NUMA node each; second hardware threads from 16 on."""
    return [
        {"cpu": cpu, "core": cpu % 16, "socket": cpu % 16 // CORES, "numa": cpu % 16 // CORES}
        for cpu in range(SOCKETS * CORES * THREADS)
    ]


def pair() -> list[dict[str, int]]:
    """Two CPUs, each a core in a socket and a NUMA node of its own."""
    return [{"cpu": cpu, "core": cpu, "socket": cpu, "numa": cpu} for cpu in range(2)]


def machine() -> Topology:
    cores = tuple(Core(core // CORES, core // CORES, (core, core + 16)) for core in range(16))
    gpus = tuple(Gpu(str(number), numa) for number, numa in enumerate(GPUS))
    return Topology(cores, tuple(range(32)), gpus=gpus)


def drive(answer: ModuleType, given: dict[str, Any]) -> dict[str, Any]:
    """The plans for the node and for a SLURM's node of two CPUs, and the options for the second."""
    plan = answer.binding_plan(given["cpus"], len(given["gpus"]), given["gpus"], given["reserved"])
    pair = answer.binding_plan(given["pair"], 2, SWAPPED, [])
    return {
        "plan": [[int(cpu) for cpu in mine] for mine in plan],
        "pair": [[int(cpu) for cpu in mine] for mine in pair],
        "options": [str(word) for word in answer.srun_options(pair)],
    }


def binding_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: the answer's plan for a node of 16 cores, 4 GPUs and a reserved core.

    Where our own SLURM is up, on a machine of two CPUs, it runs two ranks by the answer's own plan
    for two CPUs with GPUs in the other order, and the answer's options for that.
    Raises ValueError where the answer returned no plan.
    """
    evidence = launch(
        drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{"cpus": node(), "gpus": GPUS, "reserved": RESERVED, "pair": pair()}],
        process_group=False,
        timeout=LIMIT,
    )
    found = evidence.values[0]
    if not isinstance(found, dict):
        raise ValueError("binding_plan: no plan to draw")
    return drawn(found["plan"], bound_by_slurm(found["pair"], found["options"]))


def drawn(plan: list[list[int]], bound: str = "") -> Picture:
    """The plan on the node, above it what a SLURM bound."""
    from hpml.modules.m02_hardware.lecture import topology_picture

    title = f"Your plan: {len(plan)} ranks on {SOCKETS} × {CORES} cores, {len(GPUS)} GPUs"
    figure = topology_picture.draw(machine(), plan, reserved=[0, 16], title=title + bound)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    return Picture(image.getvalue(), title + bound)


def bound_by_slurm(plan: list[list[int]], options: list[str]) -> str:
    """What two ranks were bound to with the options for a plan of the node `pair()`, in words.

    "" where our own cluster is not up, or this machine has not two CPUs.
    """
    from hpml.cluster import queue  # imported only where a SLURM is looked for

    if not all(re.fullmatch(r"--[a-z-]+=[\w:,=]+", word) for word in options):
        return ""
    try:
        slurm = queue.find()
        if slurm.shape is None or slurm.shape.cpus < 2 or len(read().cpus) != 2:
            return ""
        job = ["salloc", "--quiet", "--immediate=5", "--exclusive", "--nodes=1", "--time=1"]
        step = ["srun", *options, "--label", "grep", "Cpus_allowed_list", "/proc/self/status"]
        ended = slurm.run(*job, *step)
    except (OSError, subprocess.SubprocessError, UserError):
        return ""
    lines = sorted(re.findall(r"^(\d+): Cpus_allowed_list:\s+(\S+)", ended.stdout, re.M))
    said = ", ".join(f"rank {rank} to CPU {cpus}" for rank, cpus in lines)
    return (
        f"\nFor two CPUs with GPUs in the other order your plan is {str(plan)[:40]}: "
        f"the SLURM here bound {said or 'nobody'}"
    )
