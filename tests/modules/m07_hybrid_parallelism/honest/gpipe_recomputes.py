# %%answer gpipe
# unusual: activations are computed again in backward, as GPipe does; the last micro-batch comes back
# first; gradients are scaled at the end
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint


class Pipe:
    def __init__(self, stage, shapes):
        self.stage, self.shapes = stage, shapes
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.tape = []

    def receive(self, shape, src):
        buffer = torch.full(tuple(shape), float("nan"), dtype=torch.float64)
        dist.recv(buffer, src)
        return buffer


def train_step(stage, inputs, targets, loss_function, shapes):
    pipe = Pipe(stage, shapes)
    total = 0.0
    for number, shape in enumerate(shapes):
        x = inputs[number] if pipe.rank == 0 else pipe.receive(shape, pipe.rank - 1)
        x = x.detach().requires_grad_(True)
        y = checkpoint(stage, x, use_reentrant=False)
        if pipe.rank == pipe.size - 1:
            y = shape[0] * loss_function(y, targets[number])
            total += y.item()
        else:
            dist.send(y.data, pipe.rank + 1)
        pipe.tape.append((x, y))
    while pipe.tape:
        x, y = pipe.tape.pop()
        g = None if pipe.rank == pipe.size - 1 else pipe.receive(y.shape, pipe.rank + 1)
        y.backward(g)
        if pipe.rank:
            dist.send(x.grad, pipe.rank - 1)
    samples = sum(shape[0] for shape in shapes)
    for parameter in stage.parameters():
        parameter.grad /= samples
    return total / samples
