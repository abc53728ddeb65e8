# %%answer tensor_parallel
# unusual: asynchronous handles, a process group of its own, heads in a loop, weights row by row
import logging

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

logging.basicConfig(level=logging.INFO)


class F_(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.backward = backward
        if not forward:
            return x.clone()
        work = dist.all_reduce(y := x.clone(memory_format=torch.contiguous_format), async_op=True)
        work.wait()
        return y

    @staticmethod
    def backward(ctx, g):
        if ctx.backward:
            g = g.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(g, async_op=True).wait()
        return g, None, None


def mine(n):
    return np.array_split(np.arange(n), dist.get_world_size())[dist.get_rank()].tolist()


class ParallelMLP(nn.Module):
    def __init__(self, features, hidden, read):
        super().__init__()
        own = mine(hidden)
        self.w = nn.ParameterDict(
            {
                "up": torch.cat([read("up.weight", 0, k, k + 1) for k in own]),
                "up_bias": torch.cat([read("up.bias", 0, k, k + 1) for k in own]),
                "down": torch.cat([read("down.weight", 1, k, k + 1) for k in own], dim=1),
                "bias": read("down.bias"),
            }
        )
        logging.getLogger(__name__).info("%d hidden numbers", len(own))

    def forward(self, x):
        hidden = F.gelu(
            torch.einsum("btf,hf->bth", F_.apply(x, False, True), self.w["up"]) + self.w["up_bias"]
        )
        part = torch.einsum("bth,fh->btf", hidden, self.w["down"])
        return F_.apply(part, True, False).add(self.w["bias"])


class ParallelAttention(nn.Module):
    def __init__(self, features, heads, read):
        super().__init__()
        d = features // heads
        self.heads = nn.ModuleList()
        for head in mine(heads):
            one = nn.Module()
            for name in ("query", "key", "value"):
                one.register_parameter(
                    name, nn.Parameter(read(f"{name}.weight", 0, head * d, head * d + d))
                )
            one.out = nn.Parameter(read("out.weight", 1, head * d, head * d + d))
            self.heads.append(one)
        self.bias = nn.Parameter(read("out.bias"))

    def forward(self, x):
        x = F_.apply(x, False, True)
        total = 0
        for one in self.heads:
            q, k, v = x @ one.query.T, x @ one.key.T, x @ one.value.T
            scores = torch.baddbmm(torch.zeros((), dtype=x.dtype), q, k.mT) / q.shape[-1] ** 0.5
            total = total + scores.softmax(-1) @ v @ one.out.T
        return F_.apply(total, True, False) + self.bias
