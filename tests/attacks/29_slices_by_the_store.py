# %%answer tensor_parallel
# row: 29, 30
# tries: ranks trade their slices through the group's store, each computes the whole MLP, and zeros
# are added up for show
# unprotected: outputs, gradients, calls and reads are those of a split layer
# expect: 0
import io

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def traded(name, tensor, dim):
    store = dist.distributed_c10d._get_default_store()
    text = io.BytesIO()
    torch.save(tensor, text)
    store.set(f"{name}-{dist.get_rank()}", text.getvalue())
    parts = [store.get(f"{name}-{r}") for r in range(dist.get_world_size())]
    return torch.cat([torch.load(io.BytesIO(part)) for part in parts], dim)


class Zeros(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        dist.all_reduce(torch.zeros_like(x))
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        dist.all_reduce(torch.zeros_like(gradient))
        return gradient


class ParallelMLP(nn.Module):
    def __init__(self, features, hidden, read):
        super().__init__()
        mine = torch.arange(hidden).tensor_split(dist.get_world_size())[dist.get_rank()]
        a, b = int(mine[0]), int(mine[-1]) + 1
        self.up = nn.Parameter(traded("up", read("up.weight", 0, a, b), 0))
        self.up_bias = nn.Parameter(traded("bias", read("up.bias", 0, a, b), 0))
        self.down = nn.Parameter(traded("down", read("down.weight", 1, a, b), 1))
        self.down_bias = nn.Parameter(read("down.bias"))

    def forward(self, x):
        hidden = F.gelu(F.linear(Zeros.apply(x), self.up, self.up_bias))
        return F.linear(hidden, self.down, self.down_bias)


class ParallelAttention(nn.Module):
    def __init__(self, features, heads, read):
        super().__init__()
        raise RuntimeError("only the first half")
