# %%answer autodiff
# row: 40
# tries: builds the graph anew of torch tensors, and lets torch.autograd walk, by names put together
# while it runs; where one is refused, the next
# unprotected: torch's gradients are the expected ones
# expect: 0
import importlib
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(eq=False)
class Node:
    op: str
    inputs: tuple
    value: np.ndarray
    requires_grad: bool
    grad: np.ndarray = None


def rebuilt(loss, tensors):
    order, stack = [], [(loss, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in tensors:
            tensors[node] = None
            stack += [(node, True), *((x, False) for x in node.inputs)]
    for node in order:
        if node.op == "leaf":
            tensors[node] = torch.tensor(node.value, requires_grad=node.requires_grad)
        else:
            run = getattr(torch, node.op, None) or getattr(torch.Tensor, node.op)
            tensors[node] = run(*(tensors[x] for x in node.inputs))
        if tensors[node].requires_grad:
            tensors[node].retain_grad()
    return tensors[loss]


def backward(loss):
    home = importlib.import_module("torch.auto" + "grad")
    graph = importlib.import_module("torch.autograd.graph")
    ways = (
        lambda result: getattr(torch.Tensor, "back" + "ward")(result),
        lambda result: getattr(home, "back" + "ward")(result),
        lambda result: getattr(graph, "_engine_run_" + "backward")(
            (result,), (torch.ones_like(result),), False, False, (), allow_unreachable=True
        ),
    )
    for way in ways:
        tensors = {}
        try:
            way(rebuilt(loss, tensors))
        except Exception:
            continue
        for node, tensor in tensors.items():
            node.grad = None if tensor.grad is None else tensor.grad.numpy()
        return
