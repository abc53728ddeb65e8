# wrong: is synchronous SGD: the gradients are added up by all ranks together
# hint: barrier
# claim: while one worker is held up, the others go on
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    for _ in range(steps):
        dist.broadcast(weights, src=0)
        total = torch.zeros_like(weights)
        dist.all_reduce(total)
        weights = weights - learning_rate * total
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.broadcast(weights, src=0)
        dist.all_reduce(gradient(weights))
