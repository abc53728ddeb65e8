# wrong: lets nobody go on after every fifth step until all are there
# hint: barrier
# claim: while one worker is held up, the others go on
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    workers = range(1, dist.get_world_size())
    applied = dict.fromkeys(workers, 0)  # gradients, by worker
    waiting = set()
    received = torch.empty_like(weights)
    for worker in workers:
        dist.send(weights, dst=worker)
    for _ in range(steps * len(workers)):
        worker = dist.recv(received)
        weights = weights - learning_rate * received
        applied[worker] += 1
        if applied[worker] < steps:
            waiting.add(worker)
        slowest = min(applied.values())
        for ready in [w for w in waiting if applied[w] - staleness <= slowest]:
            if applied[ready] % 5 == 0 and applied[ready] > slowest:
                continue
            dist.send(weights, dst=ready)
            waiting.remove(ready)
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
