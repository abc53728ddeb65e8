# %%answer autodiff
# row: 40
# tries: walks by itself, and asks torch's grad_fn for the derivative of each operation
# unprotected: autograd's walk is not begun, so nobody refuses it
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


def backward(loss):
    order, seen, stack = [], set(), [(loss, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack += [(node, True), *((x, False) for x in node.inputs if x.requires_grad)]
    loss.grad = np.ones(())
    for node in reversed(order):
        if node.op == "leaf":
            continue
        inputs = [torch.tensor(x.value, requires_grad=x.requires_grad) for x in node.inputs]
        run = getattr(torch, node.op, None) or getattr(torch.Tensor, node.op)
        found = run(*inputs).grad_fn(torch.from_numpy(np.array(node.grad)))
        for x, gradient in zip(node.inputs, found if isinstance(found, tuple) else [found]):
            if x.requires_grad and gradient is not None:
                gradient = gradient.detach().numpy()
                extra = gradient.ndim - np.ndim(x.value)
                gradient = gradient.sum(axis=tuple(range(extra)))
                long = tuple(i for i, n in enumerate(np.shape(x.value)) if n == 1)
                gradient = gradient.sum(axis=long, keepdims=True)
                x.grad = gradient if x.grad is None else x.grad + gradient
