# %%answer sync_sgd
# unusual: torch.func.grad, vmap, and functional collectives, which return a new tensor
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.func import grad, vmap


def loss(weights, x, y):
    return (x @ weights - y) ** 2 / 2


def everybody():
    return dist.group.WORLD


def start(weights):
    return functional.broadcast(weights, 0, everybody()).clone()


def step(weights, x, y, learning_rate):
    if len(y):
        own = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y).sum(0)
    else:
        own = torch.zeros_like(weights)
    total = functional.all_reduce(own, "sum", everybody())
    samples = functional.all_reduce(torch.tensor(len(y)), "sum", everybody())
    return weights - learning_rate * total / samples
