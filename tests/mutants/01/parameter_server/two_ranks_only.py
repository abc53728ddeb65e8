# wrong: knows one worker
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
    received = torch.empty_like(weights)
    for _ in range(steps):
        total = gradient(weights)
        if dist.get_world_size() > 1:
            dist.send(weights, dst=1)
            dist.recv(received, src=1)
            total = total + received
        weights = weights - learning_rate * total / dist.get_world_size()
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
