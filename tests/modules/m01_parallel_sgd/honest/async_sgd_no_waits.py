# %%answer async_sgd
# unusual: weights leave with isend and nobody waits until the end; a heap of clocks; a closure
import heapq

import torch
import torch.distributed as dist


def serve(weights, learning_rate, steps, staleness):
    world, on_the_way = dist.get_world_size(), []

    def hand(worker):
        on_the_way.append((weights, dist.isend(weights, worker)))  # kept until it has left

    clock = {worker: 0 for worker in range(1, world)}
    parked = []
    for worker in clock:
        hand(worker)
    arrived = 0
    while arrived < steps * len(clock):
        gradient = weights.new_empty(weights.shape)
        worker = dist.recv(gradient, src=None)
        arrived += 1
        clock[worker] += 1
        weights = weights - learning_rate * gradient
        if clock[worker] < steps:
            heapq.heappush(parked, (clock[worker], worker))
        while parked and parked[0][0] - min(clock.values()) <= staleness:
            hand(heapq.heappop(parked)[1])
    for _, request in on_the_way:
        request.wait()
    return weights


def work(weights, gradient, steps):
    mine = torch.zeros_like(weights)
    for number in range(steps):
        dist.recv(mine, src=0)
        result = gradient(mine)
        request = dist.isend(result, dst=0)
        request.wait()
