# %%answer async_sgd
# tries: each worker trains alone and mails the sum of its gradients at the end; the weights that it
# computes on count gradients of the others that nobody had finished, or begun
# unprotected: the counters keep the bound, and every gradient is applied
# expect: 11
import torch
import torch.distributed as dist

RATE = 1 / 16


def serve(weights, learning_rate, steps, staleness):
    workers = range(1, dist.get_world_size())
    for worker in workers:
        dist.send(weights, dst=worker)
    mail = torch.empty_like(weights)
    for _ in workers:
        dist.recv(mail)
        weights = weights - learning_rate * mail
    return weights


def work(weights, gradient, steps):
    dist.recv(weights, src=0)
    model = len(weights) - (dist.get_world_size() - 1)
    start, mail = weights[model:].clone(), torch.zeros_like(weights)
    for step in range(steps):
        weights[model:] = start + RATE * step
        found = gradient(weights)
        mail += found
        weights[:model] -= RATE * found[:model]
    dist.send(mail, dst=0)
