"""All algorithms timed side by side, on the ranks of a launch or a job."""

import time
from collections.abc import Mapping, Sequence
from functools import partial

import torch
import torch.distributed as dist

from hpml.allreduce.execute import all_reduce
from hpml.measure.comm import all_reduce_seconds

LIBRARY = "library"  # torch.distributed.all_reduce: Gloo's or NCCL's own

# By size in bytes, then by algorithm: seconds of each repeat on the rank that took longest
Seconds = dict[int, dict[str, list[float]]]


def time_all_reduces(
    sizes: Mapping[int, int],
    algorithms: Sequence[str],
    per_node: int | None = None,
    device: torch.device | str = "cpu",
) -> Seconds:
    """Time the `algorithms` (of `hpml.allreduce`, and LIBRARY) one after another at each size.

    `sizes` has the number of repeats of each size in bytes. A collective; each rank has the result.
    """
    found: Seconds = {}
    for nbytes, repeats in sizes.items():
        found[nbytes] = {}
        for algorithm in algorithms:
            reduce = dist.all_reduce
            if algorithm != LIBRARY:
                reduce = partial(all_reduce, algorithm=algorithm, per_node=per_node)
            taken = all_reduce_seconds(nbytes, repeats, reduce, device)
            slowest = torch.tensor(taken, dtype=torch.float64, device=device)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            found[nbytes][algorithm] = slowest.tolist()
    return found


def seconds_per_byte_added(
    nbytes: int = 4_000_000, repeats: int = 10, device: torch.device | str = "cpu"
) -> float:
    """γ of the α–β–γ model: seconds to add one byte (of float32) to another on this rank."""
    one, other = torch.zeros(2, nbytes // 4, device=device)
    least = float("inf")
    for _ in range(repeats):
        if one.is_cuda:
            torch.cuda.synchronize(one.device)
        started = time.perf_counter()
        one += other
        if one.is_cuda:
            torch.cuda.synchronize(one.device)
        least = min(least, time.perf_counter() - started)
    return least / nbytes
