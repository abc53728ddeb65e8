"""What slurm/00_hello.slurm runs on each rank. By itself it is a world of one."""

import os
import socket

import torch
import torch.distributed as dist

from hpml import distributed_environment

place = distributed_environment.read()
cores = len(os.sched_getaffinity(0))
print(
    f"rank {place.rank} of {place.world_size} on {socket.gethostname()}: {cores} core(s), "
    f"{torch.cuda.device_count()} GPU(s), torch {torch.__version__}",
    flush=True,
)

dist.init_process_group(
    "gloo",
    init_method=f"tcp://{place.address}:{place.port}",
    rank=place.rank,
    world_size=place.world_size,
)
total = torch.tensor(place.rank + 1)
dist.all_reduce(total)
expected = place.world_size * (place.world_size + 1) // 2
if total.item() != expected:
    raise SystemExit(f"rank {place.rank}: the ranks' sum is {total.item()}, expected {expected}")
if place.rank == 0:
    print(f"all_reduce over {place.world_size} rank(s): 1 + ... = {expected}, as it should be")
dist.destroy_process_group()
