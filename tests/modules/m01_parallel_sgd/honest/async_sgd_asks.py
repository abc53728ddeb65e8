# %%answer async_sgd
# unusual: workers ask for weights with a message of their own, all messages have a tag
import torch
import torch.distributed as dist


def serve(weights, learning_rate, steps, staleness):
    made = {worker: 0 for worker in range(1, dist.get_world_size())}
    asking, message = [], torch.zeros(len(weights) + 1, dtype=torch.float64)
    left = (steps + steps) * len(made)
    while left:
        worker = dist.recv(message, tag=5)
        left -= 1
        if message[0]:
            weights = weights - learning_rate * message[1:]
            made[worker] += 1
        else:
            asking.append(worker)
        for ready in list(asking):
            if made[ready] - min(made.values()) <= staleness:
                asking.remove(ready)
                dist.send(weights, dst=ready)
    return weights


def work(weights, gradient, steps):
    message = torch.zeros(len(weights) + 1, dtype=torch.float64)
    for _ in range(steps):
        dist.send(torch.zeros_like(message), dst=0, tag=5)
        dist.recv(weights, src=0)
        message[0], message[1:] = 1, gradient(weights)
        dist.send(message, dst=0, tag=5)
