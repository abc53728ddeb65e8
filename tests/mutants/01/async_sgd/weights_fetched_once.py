# wrong: receives the weights before the first step only
# hint: stale
# claim: no worker runs further ahead than the bound
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    workers = range(1, dist.get_world_size())
    received = torch.empty_like(weights)
    for worker in workers:
        dist.send(weights, dst=worker)
    for _ in range(steps * len(workers)):
        dist.recv(received)
        weights = weights - learning_rate * received
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    dist.recv(weights, src=0)
    for _ in range(steps):
        dist.send(gradient(weights), dst=0)
