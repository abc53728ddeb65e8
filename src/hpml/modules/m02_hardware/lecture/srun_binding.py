"""What SLURM bound two ranks to on a node of 2 × 64 cores, by the options of srun.

Recorded from the log of a slurmd (SLURM 22.05.8, task/affinity, CR_Core_Memory) whose hwloc was
given such a node: 2 hardware threads in each core, the second ones numbered from 128. srun(1)
describes the options, and under --cpu-bind what happens without.
"""

from dataclasses import dataclass

from matplotlib.figure import Figure

from hpml.machine import topology
from hpml.machine.topology import cpus_of
from hpml.modules.m02_hardware.lecture import topology_picture

NODE = topology.made(2, 64, threads=2)


@dataclass(frozen=True)
class Recorded:
    """Options of srun, and the CPUs that each rank was bound to, as lists of the kernel's."""

    options: str
    ranks: tuple[str, ...]

    @property
    def cores(self) -> tuple[int, ...]:
        """How many cores each rank has."""
        mine = [set(cpus_of(cpus)) for cpus in self.ranks]
        return tuple(sum(not cpus.isdisjoint(core.cpus) for core in NODE.cores) for cpus in mine)


HARDWARE_THREADS = Recorded(
    "--ntasks-per-node=2 --cpus-per-task=64", ("0-31,128-159", "64-95,192-223")
)
CORES = Recorded("--ntasks-per-node=2 --cpus-per-task=64 --hint=nomultithread", ("0-63", "64-127"))


def picture(*recorded: Recorded, title: str = "") -> Figure:
    """The node once for each of them, with every rank's CPUs."""
    placements = {f"srun {one.options}": [cpus_of(cpus) for cpus in one.ranks] for one in recorded}
    return topology_picture.compare(NODE, placements, title=title)


def idle(recorded: Recorded) -> int:
    """How many of the node's cores no rank may use."""
    return len(NODE.cores) - sum(recorded.cores)
