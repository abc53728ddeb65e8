# %%answer one_f_one_b
# unusual: receives are posted ahead, a generator yields the order, sends are awaited when they must
import itertools

import torch
import torch.distributed as dist


def order(count, warm_up):
    forward, backward = itertools.count(), itertools.count()
    for _ in range(min(warm_up, count)):
        yield "F", next(forward)
    for _ in range(count - min(warm_up, count)):
        yield "F", next(forward)
        yield "B", next(backward)
    for k in backward:
        if k == count:
            return
        yield "B", k


def train_step(stage, inputs, targets, loss_function, shapes):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    n = float(sum(shape[0] for shape in shapes))
    arriving = []
    if rank:
        for shape in shapes:
            arriving.append(torch.empty(shape, dtype=torch.float64))
        works = [dist.irecv(tensor, rank - 1) for tensor in arriving]
    live, sends, loss = {}, [], 0
    for kind, k in order(len(shapes), last - rank):
        if kind == "F":
            if rank:
                works[k].wait()
                x = arriving[k].requires_grad_()
                arriving[k] = None
            else:
                x = inputs[k]
            y = stage(x)
            if rank == last:
                y = loss_function(y, targets[k]) * len(targets[k]) / n
                loss += float(y)
            else:
                sends.append((y.detach(), dist.isend(y.detach(), rank + 1)))
            live[k] = x, y
        else:
            x, y = live.pop(k)
            g = None
            if rank < last:
                g = y.detach().clone()
                dist.irecv(g, rank + 1).wait()
            torch.autograd.backward(y, g)
            del y
            if rank:
                sends.append((x.grad, dist.isend(x.grad, rank - 1)))
    for _, work in sends:
        work.wait()
    return loss
