"""A real SLURM on one machine: a cluster of virtual nodes, and job scripts submitted to it.

`up` brings it up (root, Linux, Debian's slurm-wlm and munge), `down` leaves nothing of it. Between
the two, sbatch, srun and the others work from the shell with the environment that `environment`
returns. `head.py` says how it is built.
"""

from hpml.cluster.health import Health, health
from hpml.cluster.inside import environment, inside, log
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
    "inside",
    "log",
    "nodes",
    "up",
]
