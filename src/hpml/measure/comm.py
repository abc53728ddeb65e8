"""How fast ranks talk: measured on them, inside a launch or a job."""

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist


def all_reduce_seconds(nbytes: int, repeats: int) -> list[float]:
    """Seconds that each of `repeats` all-reduces of `nbytes` (float32) took on this rank.

    After one that is not counted; each begins when all ranks are ready. A collective.
    """
    tensor = torch.zeros(max(1, nbytes // 4))
    taken = []
    for _ in range(repeats + 1):
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(tensor)
        taken.append(time.perf_counter() - started)
    return taken[1:]


def bus_bandwidth(nbytes: int, world_size: int, seconds: Sequence[float]) -> float:
    """Bit/s that each rank must have sent for an all-reduce of `nbytes` to be done in `seconds`.

    `seconds` by rank; the last one counts. 2 (p-1)/p · n over the time, as nccl-tests defines it
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): whatever the number of
    ranks, a perfect all-reduce reaches the rate of the link.
    """
    return 8 * 2 * (world_size - 1) / world_size * nbytes / max(seconds)
