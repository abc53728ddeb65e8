# wrong: sends the weights before the first step only
# hint: stale
# claim: every gradient is of the server's weights
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(
    weights: torch.Tensor,
    gradient: Callable[[torch.Tensor], torch.Tensor],
    learning_rate: float,
    steps: int,
) -> torch.Tensor:
    ranks = dist.get_world_size()
    received = torch.empty_like(weights)
    for worker in range(1, ranks):
        dist.send(weights, dst=worker)
    for _ in range(steps):
        total = gradient(weights)
        for worker in range(1, ranks):
            dist.recv(received, src=worker)
            total = total + received
        weights = weights - learning_rate * total / ranks
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    dist.recv(weights, src=0)
    for _ in range(steps):
        dist.send(gradient(weights), dst=0)
