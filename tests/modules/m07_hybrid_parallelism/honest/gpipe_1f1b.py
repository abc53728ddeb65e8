# %%answer gpipe
# unusual: goes back as soon as it can, which idles no more; batched messages; torch.autograd.grad
import torch
import torch.distributed as dist


def exchange(*operations):
    for work in dist.batch_isend_irecv(list(operations)) if operations else ():
        work.wait()


def train_step(stage, inputs, targets, loss_function, shapes):
    rank, size = dist.get_rank(), dist.get_world_size()
    parameters = list(stage.parameters())
    sums = [torch.zeros_like(p) for p in parameters]
    n, queue, mean, pending = sum(s[0] for s in shapes), [], 0, []

    def back():
        x, y = queue.pop(0)
        g = None
        if rank < size - 1:
            g = torch.empty_like(y)
            exchange(dist.P2POp(dist.irecv, g, rank + 1))
        *own, before = torch.autograd.grad(y, [*parameters, x], g)
        for total, gradient in zip(sums, own):
            total.add_(gradient)
        if rank:
            pending.extend(dist.batch_isend_irecv([dist.P2POp(dist.isend, before, rank - 1)]))
            keep.append(before)

    keep = []
    for k, shape in enumerate(shapes):
        x = torch.empty(shape, dtype=torch.float64)
        if rank:
            exchange(dist.P2POp(dist.irecv, x, rank - 1))
        else:
            x = inputs[k]
        x = x.detach().requires_grad_()
        y = stage(x)
        if rank == size - 1:
            y = loss_function(y, targets[k]) * (len(x) / n)
            mean = mean + y.detach()
        else:
            keep.append(y.detach())
            pending += dist.batch_isend_irecv([dist.P2POp(dist.isend, keep[-1], rank + 1)])
        queue.append((x, y))
        if k >= size - 1 - rank:
            back()
    while queue:
        back()
    for work in pending:
        work.wait()
    for p, total in zip(parameters, sums):
        p.grad = total
    return mean
