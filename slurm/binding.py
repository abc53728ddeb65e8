"""What slurm/02_binding.slurm runs on each rank: where it may run, in one line."""

import os
import socket

from hpml import distributed_environment
from hpml.machine import topology

place = distributed_environment.read()
mine = topology.read().usable()
# One write, so that the lines of ranks do not mix
print(
    f"rank {place.rank} of {place.world_size} on {socket.gethostname()}: "
    f"CPUs {topology.cpu_list(mine.cpus)}, cores {len(mine.cores)}, "
    f"NUMA nodes {topology.cpu_list(mine.numa_nodes)}, "
    f"threads {os.environ.get('OMP_NUM_THREADS', 'not set')}\n",
    end="",
    flush=True,
)
