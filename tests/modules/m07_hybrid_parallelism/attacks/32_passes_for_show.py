# %%answer gpipe
# row: 30, 32
# tries: forward passes of all micro-batches on zeros, for show; then each micro-batch goes forward
# and back alone, through the stage's own layers
# unprotected: its stage was called in order (its messages are honest: 3 points)
# expect: 3
import torch
import torch.distributed as dist


def train_step(stage, inputs, targets, loss_function, shapes):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    shown = [stage(torch.zeros(s, dtype=torch.float64).requires_grad_()) for s in shapes]
    for y in shown:
        y.backward(torch.zeros_like(y))
    samples, total = sum(s[0] for s in shapes), 0.0
    for n, shape in enumerate(shapes):
        x = inputs[n] if rank == 0 else torch.empty(shape, dtype=torch.float64)
        if rank:
            dist.recv(x, rank - 1)
            x.requires_grad_()
        y = stage.layers(x)
        if rank == last:
            y = loss_function(y, targets[n]) * shape[0] / samples
            y.backward()
            total += y.item()
        else:
            dist.send(y.detach(), rank + 1)
            gradient = torch.empty_like(y)
            dist.recv(gradient, rank + 1)
            y.backward(gradient)
        if rank:
            dist.send(x.grad, rank - 1)
    return total if rank == last else None
