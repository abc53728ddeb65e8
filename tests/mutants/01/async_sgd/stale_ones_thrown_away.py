# wrong: throws a gradient away that comes too late
# hint: lost
# claim: every gradient is applied, once and whole
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    workers = range(1, dist.get_world_size())
    made = dict.fromkeys(workers, 0)
    version, sent = 0, dict.fromkeys(workers, 0)
    received = torch.empty_like(weights)
    for worker in workers:
        dist.send(weights, dst=worker)
    for _ in range(steps * len(workers)):
        worker = dist.recv(received)
        if version - sent[worker] <= staleness:
            weights = weights - learning_rate * received
            version += 1
        made[worker] += 1
        if made[worker] < steps:
            dist.send(weights, dst=worker)
            sent[worker] = version
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
