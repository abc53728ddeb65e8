# wrong: never lets a fast worker wait
# hint: bound
# claim: no worker runs further ahead than the bound
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    workers = range(1, dist.get_world_size())
    applied = dict.fromkeys(workers, 0)
    received = torch.empty_like(weights)
    for worker in workers:
        dist.send(weights, dst=worker)
    for _ in range(steps * len(workers)):
        worker = dist.recv(received)
        weights = weights - learning_rate * received
        applied[worker] += 1
        if applied[worker] < steps:
            dist.send(weights, dst=worker)
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
