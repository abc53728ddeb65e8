# %%answer split_layers
# unusual: a function for the border as autograd sees it; tensors of the stage's own dtype; tags
import torch
import torch.distributed as dist


class ToNext(torch.autograd.Function):
    """Forward sends to the next rank; backward receives from there."""

    @staticmethod
    def forward(ctx, output, to):
        ctx.to, ctx.shape, ctx.dtype = to, output.shape, output.dtype
        dist.send(output.contiguous(), to, tag=1)
        return output.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        gradient = torch.empty(ctx.shape, dtype=ctx.dtype)
        dist.recv(gradient, ctx.to, tag=2)
        return gradient, None


class FromPrevious(torch.autograd.Function):
    """Forward receives from the previous rank; backward sends there."""

    @staticmethod
    def forward(ctx, place, source):
        ctx.source = source
        arrived = torch.empty_like(place)
        dist.recv(arrived, source, tag=1)
        return arrived

    @staticmethod
    def backward(ctx, gradient):
        dist.send(gradient.contiguous(), ctx.source, tag=2)
        return None, None


def train_step(stage, inputs, targets, loss_function, shape):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank:
        place = torch.zeros(*shape, dtype=torch.float64, requires_grad=True)
        inputs = FromPrevious.apply(place, rank - 1)
    output = stage(inputs)
    loss = loss_function(output, targets) if targets is not None else ToNext.apply(output, rank + 1)
    loss.backward()
    return loss.detach() if rank == world_size - 1 else None
