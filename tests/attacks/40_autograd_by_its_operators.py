# %%answer autodiff
# row: 40
# tries: torch.autograd's walk as an operator, in TorchScript, and by the engine itself
# unprotected: torch's gradients are the expected ones
# expect: 0
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


def by_engine(result, tensors):
    torch.autograd.Variable._execution_engine.run_backward(
        (result,), (torch.ones(()),), False, False, (), allow_unreachable=True, accumulate_grad=True
    )


def by_script(result, tensors):
    torch.jit.CompilationUnit("def walk(x):\n    x.backward()\n").walk(result)


def by_operator(result, tensors):
    leaves = [x for x in tensors.values() if x.is_leaf and x.requires_grad]
    torch.ops.aten._backward(result, leaves)


def by_another_operator(result, tensors):
    torch.ops.aten.backward(result)


def backward(loss):
    for way in by_engine, by_script, by_operator, by_another_operator:
        tensors = {}
        try:
            way(rebuilt(loss, tensors), tensors)
        except Exception:
            continue
        for node, tensor in tensors.items():
            node.grad = None if tensor.grad is None else tensor.grad.numpy()
        return
