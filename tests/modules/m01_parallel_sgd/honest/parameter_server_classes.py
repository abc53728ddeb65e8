# %%answer parameter_server
# unusual: classes for both sides, batched messages, gradients off at import, math in float64 scalars
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
import torch.distributed as dist

torch.set_grad_enabled(False)


@dataclass
class Server:
    weights: torch.Tensor
    rate: np.float64

    def __post_init__(self):
        self.workers = [int(rank) for rank in np.arange(1, dist.get_world_size())]
        self.inbox = {rank: torch.zeros_like(self.weights) for rank in self.workers}

    def messages(self, operation, tensors):
        ops = [dist.P2POp(operation, tensors(rank), rank) for rank in self.workers]
        return dist.batch_isend_irecv(ops) if ops else []

    def step(self, gradient):
        requests = self.messages(dist.isend, lambda rank: self.weights)
        requests += self.messages(dist.irecv, self.inbox.__getitem__)
        total = gradient(self.weights).clone()
        [request.wait() for request in requests]
        for found in self.inbox.values():
            total += found
        self.weights = self.weights - float(self.rate) * total


def serve(weights, gradient: Callable, learning_rate: float, steps: int):
    server = Server(weights, np.float64(learning_rate) / dist.get_world_size())
    for _ in range(steps):
        server.step(gradient)
    return server.weights


def work(weights, gradient: Callable, steps: int):
    remaining = steps
    while remaining:
        (request,) = dist.batch_isend_irecv([dist.P2POp(dist.irecv, weights, 0)])
        request.wait()
        dist.send(gradient(weights), 0)
        remaining -= 1
