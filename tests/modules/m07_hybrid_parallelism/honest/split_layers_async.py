# %%answer split_layers
# unusual: batched and asynchronous messages, torch.autograd.grad, a logger
import logging

import torch
import torch.distributed as dist

logging.basicConfig(level=logging.INFO)


def message(operation, tensor, peer):
    for work in dist.batch_isend_irecv([dist.P2POp(operation, tensor, peer)]):
        work.wait()
    return tensor


def train_step(stage, inputs, targets, loss_function, shape):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    x = inputs if rank == 0 else message(dist.irecv, torch.empty(shape).double(), rank - 1)
    x = x.detach().clone().requires_grad_(rank > 0)
    y = stage(x)
    wanted = [p for p in stage.parameters() if p.requires_grad] + [x] * (rank > 0)
    if rank < last:
        gradient = torch.empty_like(y, requires_grad=False)
        coming = dist.irecv(gradient, rank + 1)
        sent = dist.isend(y.detach(), rank + 1)
        coming.wait()
        sent.wait()
        found = torch.autograd.grad(y, wanted, grad_outputs=gradient)
        loss = None
    else:
        loss = loss_function(y, targets)
        found = torch.autograd.grad(loss, wanted)
        logging.info("loss %s", loss.item())
    if rank:
        message(dist.isend, found[-1], rank - 1)
    for parameter, gradient in zip(wanted, found):
        if parameter is not x:
            parameter.grad = gradient
    return loss
