"""Access from outside: the shell's environment, a command on a node, a daemon's log."""

import os
from collections.abc import Sequence
from pathlib import Path

from hpml.cluster import needs
from hpml.cluster.folder import running_folder
from hpml.cluster.process import read_pid_file
from hpml.cluster.shape import HEAD
from hpml.errors import UserError


def environment() -> dict[str, str]:
    """The variables with which a shell's sbatch, srun and mpirun use this cluster."""
    found = {"SLURM_CONF": str(running_folder().slurm_conf)}
    if os.geteuid() == 0:  # Open MPI runs as root only with both
        found |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return found


def nsenter_command(node: str, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` on a node or the head, in this working folder.

    Raises UserError where there is no such node, where it has been lost, or without root.
    """
    folder = running_folder()
    names = (*folder.plan()[0].names, HEAD)
    if node not in names:
        raise UserError(f"no node {node!r}: there are {', '.join(names)}")
    needs.need_root(
        f'to enter a node (without, use srun --nodelist={node} after eval "$(./hpml cluster env)")'
    )
    process = read_pid_file(folder.pid_file(node))
    if process is None or not process.alive:
        raise UserError(f"{node} does not run: see ./hpml cluster status")
    kinds = "--net --uts --ipc --mount --pid".split()
    there = 'cd "$0" 2>/dev/null || cd /; exec "$@"'  # a folder in /tmp may not be on the node
    return [
        *("nsenter", f"--target={process.pid}", *kinds, "--"),
        *("env", f"SLURM_CONF={folder.slurm_conf}", "sh", "-c", there, str(Path.cwd()), *command),
    ]


def log_file(name: str) -> Path:
    """The log of slurmctld, munged, head or a node's slurmd. Raises UserError for other names."""
    folder = running_folder()
    names = ("slurmctld", *folder.plan()[0].names, HEAD, "munged")
    if name not in names:
        raise UserError(f"no log of {name!r}: there are {', '.join(names)}")
    return folder.log(name)
