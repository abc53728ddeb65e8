# %%answer tensor_parallel
# unusual: torch's functional collectives, hooks in place of an autograd function, fused q, k and v
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.nn import functional as F


def bounds(units):
    edges = [0]
    for part in range(dist.get_world_size()):
        edges.append(
            edges[-1] + units // dist.get_world_size() + (part < units % dist.get_world_size())
        )
    return edges[dist.get_rank()], edges[dist.get_rank() + 1]


def summed_gradient(x):
    y = x.view_as(x)
    if dist.get_world_size() > 1:
        y.register_hook(lambda g: funcol.all_reduce(g.contiguous(), "sum", dist.group.WORLD) + 0)
    return y


def summed(part):
    if dist.get_world_size() == 1:
        return part
    # The value of the sum, and the gradient of the part
    with torch.no_grad():
        others = funcol.all_reduce(part.detach().contiguous(), "sum", dist.group.WORLD) - part
    return part + others


class ParallelMLP(nn.Module):
    def __init__(self, features, hidden, read):
        super().__init__()
        a, b = bounds(hidden)
        self.up = nn.Linear(features, b - a, dtype=torch.float64)
        self.down = nn.Linear(b - a, features, bias=False, dtype=torch.float64)
        self.bias = nn.Parameter(read("down.bias", 0, 0, features))
        with torch.no_grad():
            self.up.weight.copy_(read("up.weight", start=a, stop=b))
            self.up.bias.copy_(read("up.bias", start=a, stop=b))
            self.down.weight.copy_(read("down.weight", dim=1, start=a, stop=b))

    def forward(self, x):
        return summed(self.down(F.gelu(self.up(summed_gradient(x))))) + self.bias


class ParallelAttention(nn.Module):
    def __init__(self, features, heads, read):
        super().__init__()
        d = features // heads
        a, b = bounds(heads)
        self.heads = b - a
        rows = {"start": a * d, "stop": b * d}
        parts = [read(f"{name}.weight", **rows) for name in ("query", "key", "value")]
        self.qkv = nn.Parameter(torch.cat(parts))
        self.out = nn.Parameter(read("out.weight", dim=1, **rows).t().contiguous())
        self.bias = nn.Parameter(read("out.bias"))
        self.scale = d**-0.5

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).movedim(-2, 1)
            for t in (summed_gradient(x) @ self.qkv.T).chunk(3, dim=-1)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.scale, dim=-1)
        return summed((weights @ v).movedim(1, -2).flatten(-2) @ self.out) + self.bias
