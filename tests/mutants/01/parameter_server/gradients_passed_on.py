# wrong: tells every worker the gradients of all
# hint: wire
# claim: each step, one copy travels each way for each worker
# needs: an emulated network
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
        gathered = []
        for worker in range(1, ranks):
            dist.recv(received, src=worker)
            gathered.append(received.clone())
        for found in gathered:
            total = total + found
            for worker in range(1, ranks):
                dist.send(found, dst=worker)
        weights = weights - learning_rate * total / ranks
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
        received = torch.empty_like(weights)
        for _ in range(1, dist.get_world_size()):
            dist.recv(received, src=0)
