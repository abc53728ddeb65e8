"""From outside into the cluster: the shell's environment, a command on a node, a daemon's log."""

import os
from collections.abc import Sequence
from pathlib import Path

from hpml.cluster import needs
from hpml.cluster.folder import of_running
from hpml.cluster.process import noted
from hpml.cluster.shape import HEAD
from hpml.errors import UserError


def environment() -> dict[str, str]:
    """What a shell needs for sbatch, srun and mpirun to mean this cluster."""
    found = {"SLURM_CONF": str(of_running().slurm_conf)}
    if os.geteuid() == 0:  # as root, Open MPI wants to be told twice
        found |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return found


def inside(node: str, command: Sequence[str]) -> list[str]:
    """The words that run `command` on a node or the head, in this process's working folder.

    Raises UserError where there is no such node, where it has been lost, or without root.
    """
    folder = of_running()
    names = (*folder.plan()[0].names, HEAD)
    if node not in names:
        raise UserError(f"no node {node!r}: there are {', '.join(names)}")
    needs.need_root(
        f'to enter a node (without, use srun --nodelist={node} after eval "$(./hpml cluster env)")'
    )
    process = noted(folder.process(node))
    if process is None or not process.alive:
        raise UserError(f"{node} does not run: ./hpml cluster status says more")
    kinds = "--net --uts --ipc --mount --pid".split()
    there = 'cd "$0" 2>/dev/null || cd /; exec "$@"'  # a folder in /tmp may not be on the node
    return [
        *("nsenter", f"--target={process.pid}", *kinds, "--"),
        *("env", f"SLURM_CONF={folder.slurm_conf}", "sh", "-c", there, str(Path.cwd()), *command),
    ]


def log(name: str) -> Path:
    """The log of slurmctld, munged, head or a node's slurmd. Raises UserError for other names."""
    folder = of_running()
    names = ("slurmctld", *folder.plan()[0].names, HEAD, "munged")
    if name not in names:
        raise UserError(f"no log of {name!r}: there are {', '.join(names)}")
    return folder.log(name)
