# wrong: serve returns nothing
# hint: types
# claim: the server ends where synchronous SGD ends
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
    for _ in range(steps):
        for worker in range(1, ranks):
            dist.send(weights, dst=worker)
        total = gradient(weights)
        for worker in range(1, ranks):
            dist.recv(received, src=worker)
            total = total + received
        weights = weights - learning_rate * total / ranks


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
