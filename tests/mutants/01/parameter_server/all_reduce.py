# wrong: lets a collective do it
# hint: collective
# claim: workers talk with the server, and in pairs
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(
    weights: torch.Tensor,
    gradient: Callable[[torch.Tensor], torch.Tensor],
    learning_rate: float,
    steps: int,
) -> torch.Tensor:
    dist.broadcast(weights, src=0)
    for _ in range(steps):
        total = gradient(weights)
        dist.all_reduce(total)
        weights = weights - learning_rate * total / dist.get_world_size()
        dist.broadcast(weights, src=0)
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    dist.broadcast(weights, src=0)
    for _ in range(steps):
        dist.all_reduce(gradient(weights))
        dist.broadcast(weights, src=0)
