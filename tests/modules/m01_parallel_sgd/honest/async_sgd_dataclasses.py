# %%answer async_sgd
# unusual: dataclasses, a deque of workers that wait, irecv in the workers, f-strings to stderr
import sys
from collections import deque
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class Worker:
    rank: int
    clock: int = 0  # gradients that were applied


def serve(weights, learning_rate, steps, staleness):
    team = {rank: Worker(rank) for rank in range(1, dist.get_world_size())}
    parked = deque()
    for handle in [dist.isend(weights, rank) for rank in team]:
        handle.wait()
    while any(worker.clock < steps for worker in team.values()):
        gradient = torch.zeros_like(weights)
        sender = team[dist.recv(gradient)]
        weights = torch.add(weights, gradient, alpha=-learning_rate)
        sender.clock += 1
        print(f"{sender} at {weights.norm():.3f}", file=sys.stderr)
        parked.append(sender)
        slowest = min(worker.clock for worker in team.values())
        for _ in range(len(parked)):
            worker = parked.popleft()
            if worker.clock >= steps:
                continue
            if worker.clock <= slowest + staleness:
                dist.send(weights, worker.rank)
            else:
                parked.append(worker)
    return weights


def work(weights, gradient, steps):
    for step in range(steps):
        dist.irecv(weights, 0).wait()
        dist.send(gradient(weights.clone()), 0, tag=0)
