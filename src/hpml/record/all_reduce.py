"""All-reduce between GPUs by size, and how much of it DistributedDataParallel hides."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from hpml.models import ResidualNetwork
from hpml.record import ranks
from hpml.record.kept import Place

LARGEST = {"cuda": 2**28, "cpu": 2**22}  # bytes; the smallest is 4
BATCH = {"cuda": 512, "cpu": 8}
ROUNDS = 20


def measure(place: Place) -> dict[str, Any]:
    """Ranks and back end; median seconds by bytes; seconds of a step with its all-reduce beside
    backward, after it, and without one.
    """
    count, backend = (torch.cuda.device_count(), "nccl") if place.gpu else (2, "gloo")
    found = ranks.run(on_rank, count, backend, place.device)[0]
    largest = max(found["seconds"])
    rate = largest * 2 * (count - 1) / count / found["seconds"][largest]
    print(f"    {count} × {backend}: {rate / 1e9:.2f} GB/s of bus bandwidth", flush=True)
    return {"ranks": count, "backend": backend, **found}


def on_rank(device: str) -> dict[str, Any]:
    """What one rank measures; a collective."""
    seconds, size = {}, 4
    while size <= LARGEST[device]:
        tensor = torch.ones(size // 4, device=device)
        seconds[size] = _median(partial(dist.all_reduce, tensor), device)
        size *= 4
    return {"seconds": seconds, "step": _step(device)}


def _step(device: str) -> dict[str, float]:
    torch.manual_seed(0)
    network = ResidualNetwork().to(device).to(memory_format=torch.channels_last)
    model = DistributedDataParallel(network)
    images = torch.randn(BATCH[device], 3, 32, 32, device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (BATCH[device],), device=device)

    def backward(called: nn.Module) -> None:
        network.zero_grad()
        F.cross_entropy(called(images), labels).backward()

    def alone() -> None:
        with model.no_sync():
            backward(model)

    def after() -> None:
        alone()
        parts = [p.grad.reshape(-1) for p in network.parameters() if p.requires_grad]
        dist.all_reduce(torch.cat(parts))

    return {
        "alone": _median(alone, device),
        "after": _median(after, device),
        "beside": _median(lambda: backward(model), device),
        "bytes": 4.0 * sum(p.numel() for p in network.parameters() if p.requires_grad),
    }


def _median(work: Callable[[], object], device: str) -> float:
    """Seconds, the slowest rank's, as each round begins and ends with all of them."""
    taken = []
    for number in range(ROUNDS + 3):
        dist.barrier()
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        if number >= 3:
            taken.append(time.perf_counter() - began)
    one = torch.tensor(statistics.median(taken), dtype=torch.float64, device=device)
    dist.all_reduce(one, dist.ReduceOp.MAX)
    return float(one)
