# %%answer sync_sgd
# unusual: autograd instead of the formula, asynchronous handles, a context manager, a named tuple
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.distributed as dist


class Totals(NamedTuple):
    gradient: torch.Tensor
    samples: torch.Tensor


@contextmanager
def on_the_way(*tensors):
    handles = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    yield
    for handle in handles:
        handle.wait()


def start(weights):
    mine = weights if dist.get_rank() == 0 else torch.empty_like(weights)
    handle = dist.broadcast(mine, 0, async_op=True)
    handle.wait()
    return mine


def step(weights, x, y, learning_rate):
    w = weights.detach().requires_grad_()
    loss = 0.5 * (x @ w - y).square().sum()
    totals = Totals(torch.autograd.grad(loss, w)[0], x.new_tensor(float(len(x))))
    with on_the_way(*totals):
        after = weights.clone()
    return after.sub_(totals.gradient / totals.samples, alpha=learning_rate)
