# wrong: takes gradients as they come, and answers when all are there
# hint: barrier
# claim: while one worker is held up, the others go on
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    workers = range(1, dist.get_world_size())
    received = torch.empty_like(weights)
    for _ in range(steps):
        for worker in workers:
            dist.send(weights, dst=worker)
        for _ in workers:
            dist.recv(received)
            weights = weights - learning_rate * received
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
