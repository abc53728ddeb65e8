"""The nodes as SLURM sees them."""

import os
import subprocess
from dataclasses import dataclass

from hpml.cluster.folder import running_folder
from hpml.cluster.subnet import addresses


@dataclass(frozen=True)
class Node:
    """A node, its address, and its state as SLURM names it; "unknown" without an answer."""

    name: str
    address: str
    state: str


def nodes() -> tuple[Node, ...]:
    """All nodes of the cluster. Raises UserError where there is none."""
    folder = running_folder()
    shape, subnet = folder.plan()
    states = _states(str(folder.slurm_conf))
    where = addresses(subnet, shape)
    return tuple(Node(name, where[name], states.get(name, "unknown")) for name in shape.names)


def _states(slurm_conf: str) -> dict[str, str]:
    try:
        done = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%N %T"],
            env={**os.environ, "SLURM_CONF": slurm_conf},
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
