# %%answer sync_sgd
# unusual: reduce to rank 0 over a subgroup of all ranks, the step taken there, scattered afterwards
import torch
import torch.distributed as dist

_everybody = None


def everybody():
    global _everybody
    if _everybody is None:
        _everybody = dist.new_group(list(range(dist.get_world_size())))
    return _everybody


def start(weights):
    copies = (
        [weights.clone() for _ in range(dist.get_world_size())] if not dist.get_rank() else None
    )
    into = torch.zeros_like(weights)
    dist.scatter(into, copies, src=0, group=everybody())
    return into


def step(weights, x, y, learning_rate):
    residual = torch.einsum("nd,d->n", x, weights) - y
    gradient = torch.einsum("nd,n->d", x, residual)
    count = torch.tensor([x.shape[0]])
    dist.reduce(gradient, dst=0, group=everybody())
    dist.reduce(count, dst=0, group=everybody())
    new = weights - learning_rate * gradient / count if dist.get_rank() == 0 else None
    return start(weights if new is None else new)
