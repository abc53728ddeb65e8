# %%answer gradient_hooks
# unusual: a generator that is sent what is ready, means in tensors of its own that become p.grad
import torch
import torch.distributed as dist
from torch import nn


def in_turn(order, sent):
    ready = set()
    for parameter in order:
        while parameter not in ready:
            ready.add((yield))
        mean = torch.empty_like(parameter, requires_grad=False).copy_(parameter.grad)
        sent[parameter] = mean, dist.all_reduce(mean, dist.ReduceOp.SUM, async_op=True)
    while True:
        yield


def hook_gradients(model: nn.Module):
    order = tuple(filter(lambda p: p.requires_grad, model.parameters()))[::-1]
    sent, turns = {}, []

    def begin():
        turns[:] = [in_turn(order, sent)]
        next(turns[0])

    def finish():
        for parameter, (mean, work) in sent.items():
            work.wait()
            parameter.grad = mean.div_(dist.get_world_size())
        sent.clear()
        begin()

    begin()
    for parameter in order:
        parameter.register_post_accumulate_grad_hook(lambda p: turns[0].send(p))
    return finish
