# wrong: the workers send before they receive, as the server does
# hint: hang
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
    for _ in range(steps):
        for worker in range(1, ranks):
            dist.send(weights, dst=worker)
        total = gradient(weights)
        for worker in range(1, ranks):
            dist.recv(received, src=worker)
            total = total + received
        weights = weights - learning_rate * total / ranks
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.send(gradient(weights), dst=0)
        dist.recv(weights, src=0)
