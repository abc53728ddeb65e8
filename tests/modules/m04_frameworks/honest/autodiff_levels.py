# %%answer autodiff
# unusual: a heap by the longest way from the loss; torch tensors for the arithmetic; sum_to_size
import heapq
import itertools
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(eq=False)
class Node:
    op: str
    inputs: tuple["Node", ...]
    value: np.ndarray
    requires_grad: bool
    grad: np.ndarray | None = None


def tensor(array):
    return torch.tensor(np.asarray(array))


def matmul_vjp(g, out, a, b):
    return torch.mm(g, b.T), torch.mm(a.T, g)


def relu_vjp(g, out, a):
    return (g.masked_fill(a <= 0, 0.0),)


VJPS = {
    "add": lambda g, out, a, b: (g, g),
    "mul": lambda g, out, a, b: (g * b, g * a),
    "tanh": lambda g, out, a: (g * (1 - out**2),),
    "sum": lambda g, out, a: (g.expand(a.shape),),
    "matmul": matmul_vjp,
    "relu": relu_vjp,
}


def backward(loss):
    """A node's height is 1 more than that of its highest input: users are always higher."""
    height, ways = {}, [loss]
    while ways:
        node = ways[-1]
        missing = [x for x in node.inputs if x.requires_grad and x not in height]
        if missing:
            ways += missing
        else:
            height[ways.pop()] = 1 + max((height.get(x, 0) for x in node.inputs), default=0)
    number = itertools.count()
    heap, partial = (
        [(-height[loss], next(number), loss)],
        {loss: [torch.ones((), dtype=torch.float64)]},
    )
    while heap:
        _, _, node = heapq.heappop(heap)
        g = torch.stack(partial.pop(node)).sum(0)
        node.grad = g.numpy()
        if node.op == "leaf":
            continue
        inputs = [tensor(x.value) for x in node.inputs]
        for x, value, part in zip(
            node.inputs, inputs, VJPS[node.op](g, tensor(node.value), *inputs), strict=True
        ):
            if x.requires_grad:
                if x not in partial:
                    partial[x] = []
                    heapq.heappush(heap, (-height[x], next(number), x))
                partial[x].append(part.sum_to_size(value.shape))
