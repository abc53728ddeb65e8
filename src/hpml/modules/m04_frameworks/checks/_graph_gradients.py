"""The gradients of a recorded graph: by torch.autograd, and what each use contributes to them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hpml.modules.m04_frameworks.checks._recorded_graphs import Graph, values_of

Array = NDArray[np.float64]

OPERATIONS: Mapping[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "matmul": torch.matmul,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sum": torch.sum,
    "floor": torch.floor,
    "detach": torch.Tensor.detach,
}
VJPS: Mapping[str, Callable[..., Sequence[Array]]] = {
    "add": lambda g, out, a, b: (g, g),
    "mul": lambda g, out, a, b: (g * b, g * a),
    "matmul": lambda g, out, a, b: (g @ b.T, a.T @ g),
    "tanh": lambda g, out, a: (g * (1 - out * out),),
    "relu": lambda g, out, a: (g * (a > 0),),
    "sum": lambda g, out, a: (np.broadcast_to(g, a.shape),),
}


# An error of out is one of 1 - out², however small that is
BOUNDS = {**VJPS, "tanh": lambda g, out, a: (g,)}


@dataclass(frozen=True)
class Use:
    """What one operation adds to the gradient of one of its inputs, in the input's shape."""

    user: int
    adds: Array


@dataclass(frozen=True)
class Gradients:
    """By node: torch's gradient, or None; a bound of the sizes that were added and multiplied for
    it, for tolerances; the uses that contribute. And the nodes' values."""

    expected: Sequence[Array | None]
    scale: Sequence[float]
    uses: Sequence[Sequence[Use]]
    values: Sequence[Any]


def by_torch(graph: Graph) -> list[Array | None]:
    """The gradient of the loss by each node that is kept; None for the others."""
    tensors: list[torch.Tensor] = []
    kept = set(graph["kept"])
    for place, (operation, inputs, grad, value) in enumerate(graph["nodes"]):
        if operation == "leaf":
            tensor = torch.tensor(value).requires_grad_(grad)
        else:
            tensor = OPERATIONS[operation](*[tensors[i] for i in inputs])
        if tensor.requires_grad and place in kept:
            tensor.retain_grad()
        tensors.append(tensor)
    tensors[-1].backward()
    found: list[Array | None] = [None] * len(tensors)
    for place in kept:
        if tensors[place].requires_grad and tensors[place].grad is not None:
            found[place] = tensors[place].grad.numpy()
    return found


def gradients(graph: Graph) -> Gradients:
    """What a walk back over the graph should find, and how."""
    nodes, values = graph["nodes"], values_of(graph["nodes"])
    expected = by_torch(graph)
    whole: list[Any] = [None] * len(nodes)  # by hand: torch keeps only some of a long chain's
    sizes: list[Any] = [np.zeros(np.shape(value)) for value in values]
    uses: list[list[Use]] = [[] for _ in nodes]
    whole[-1], sizes[-1] = np.ones(()), np.ones(())
    for place in reversed(range(len(nodes))):
        operation, inputs, grad, _ = nodes[place]
        if operation == "leaf" or not grad or whole[place] is None:
            continue
        given = [values[i] for i in inputs]
        adds = VJPS[operation](whole[place], values[place], *given)
        most = BOUNDS[operation](sizes[place], values[place], *map(np.abs, given))
        for node, add, size in zip(inputs, adds, most, strict=True):
            if nodes[node][2]:
                add, size = (fitted(x, np.shape(values[node])) for x in (add, size))
                whole[node] = add if whole[node] is None else whole[node] + add
                sizes[node] = sizes[node] + size
                uses[node].append(Use(place, add))
    return Gradients(expected, [float(np.max(size)) for size in sizes], uses, values)


def fitted(gradient: Array, shape: tuple[int, ...]) -> Array:
    """A gradient of the broadcast value, summed to this shape."""
    before = np.ndim(gradient) - len(shape)
    gradient = np.sum(gradient, axis=tuple(range(before)))
    repeated = tuple(i for i, n in enumerate(shape) if n == 1)
    return np.sum(gradient, axis=repeated, keepdims=True)
