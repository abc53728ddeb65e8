"""A real SLURM on one machine: a cluster of virtual nodes, and job scripts submitted to it.

`up` starts it (root, Linux, Debian's slurm-wlm and munge), `down` leaves nothing of it. Between the
two, sbatch, srun and the others work from a shell with the variables that `environment` returns.
How it is built: `head.py`.
"""

from hpml.cluster.access import environment, log_file, nsenter_command
from hpml.cluster.health import Health, health
from hpml.cluster.lifecycle import down, up
from hpml.cluster.nodes import Node, nodes
from hpml.cluster.shape import Shape

__all__ = [
    "Health",
    "Node",
    "Shape",
    "down",
    "environment",
    "health",
    "log_file",
    "nodes",
    "nsenter_command",
    "up",
]
