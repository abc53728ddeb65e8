# %%answer autodiff
# unusual: an explicit stack of iterators for postorder; slots; einsum; gradients kept in a dict
# until the end
from dataclasses import dataclass, field

import numpy


@dataclass(eq=False, slots=True)
class Node:
    op: str
    inputs: tuple
    value: numpy.ndarray
    requires_grad: bool
    grad: numpy.ndarray = None
    tag: dict = field(default_factory=dict)


def backward(loss):
    order, seen = [], {id(loss)}
    stack = [(loss, iter(loss.inputs))]
    while stack:
        node, rest = stack[-1]
        following = next((x for x in rest if x.requires_grad and id(x) not in seen), None)
        if following is None:
            order.append(stack.pop()[0])
        else:
            seen.add(id(following))
            stack.append((following, iter(following.inputs)))
    gradients = {id(node): numpy.zeros(numpy.shape(node.value)) for node in order}
    gradients[id(loss)] += 1
    while order:
        node = order.pop()
        node.grad = gradients[id(node)]
        if node.op == "leaf":
            continue
        for x, part in zip(node.inputs, rules[node.op](node), strict=True):
            if x.requires_grad:
                shape = numpy.shape(x.value)
                part = numpy.broadcast_to(part, numpy.broadcast_shapes(numpy.shape(part), shape))
                padded = (1,) * (part.ndim - len(shape)) + shape
                axes = [i for i, n in enumerate(padded) if n != part.shape[i]]
                gradients[id(x)] += part.sum(axis=tuple(axes), keepdims=True).reshape(shape)


def matmul_vjp(g, out, a, b):
    return numpy.einsum("nm,km->nk", g, b), numpy.einsum("nk,nm->km", a, g)


def relu_vjp(g, out, a):
    return (numpy.where(out > 0, g, 0.0),)


rules = {
    "add": lambda node: (node.grad, node.grad),
    "mul": lambda node: (node.grad * node.inputs[1].value, node.grad * node.inputs[0].value),
    "tanh": lambda node: (node.grad / numpy.cosh(node.inputs[0].value) ** 2,),
    "sum": lambda node: (node.grad,),
    "matmul": lambda node: matmul_vjp(node.grad, None, *(x.value for x in node.inputs)),
    "relu": lambda node: relu_vjp(node.grad, node.value, None),
}
