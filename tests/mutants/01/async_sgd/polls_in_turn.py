# wrong: asks each worker in turn with irecv, and waits for the answer
# hint: barrier
# claim: while one worker is held up, the others go on
from collections.abc import Callable

import torch
import torch.distributed as dist


def serve(weights: torch.Tensor, learning_rate: float, steps: int, staleness: int) -> torch.Tensor:
    workers = range(1, dist.get_world_size())
    buffers = {worker: torch.empty_like(weights) for worker in workers}
    for worker in workers:
        dist.send(weights, dst=worker)
    for step in range(steps):
        requests = {worker: dist.irecv(buffers[worker], src=worker) for worker in workers}
        for worker, request in requests.items():
            request.wait()
            weights = weights - learning_rate * buffers[worker]
            if step + 1 < steps:
                dist.send(weights, dst=worker)
    return weights


def work(
    weights: torch.Tensor, gradient: Callable[[torch.Tensor], torch.Tensor], steps: int
) -> None:
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
