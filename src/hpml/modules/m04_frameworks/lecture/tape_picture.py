"""A tape of operations as a graph, with each value, its adjoint, and what every use adds to it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from hpml.modules.m04_frameworks.lecture.graph_picture import Node, graph_picture

Operation = tuple[Any, str, Sequence[Any]]  # output, name, inputs


def draw(
    tape: Sequence[Operation],
    names: Mapping[str, Any],
    primitives: Mapping[str, tuple[Callable[..., Any], Callable[..., Sequence[float]]]],
    *,
    title: str,
) -> Figure:
    """The operations in the order in which they ran; the walk back is done.

    A value has `data` and `adjoint`, both numbers; `names` has those that have a name. `primitives`
    has for each operation (what runs, its vjp): on each edge stands what the vjp adds to the
    input's adjoint.
    """
    called = {id(value): name for name, value in names.items()}
    nodes: dict[int, Node] = {}
    added: dict[tuple[str, str], str] = {}
    for output, operation, inputs in tape:
        for value in inputs:
            if id(value) not in nodes:
                nodes[id(value)] = _node(value, called.get(id(value), ""), "", (), "input")
        kind = "output" if output is tape[-1][0] else "op"
        sources = tuple(_key(value) for value in inputs)
        nodes[id(output)] = _node(output, called.get(id(output), ""), operation, sources, kind)
        vjp = primitives[operation][1]
        adjoints = vjp(output.adjoint, output.data, *(value.data for value in inputs))
        for source, adjoint in zip(sources, adjoints, strict=True):
            edge = source, _key(output)  # twice the same where an operation uses a value twice
            added[edge] = f"{added.get(edge, '')} {adjoint:+g}".strip()
    return graph_picture(list(nodes.values()), title=title, edges=added)


def _node(value: Any, name: str, operation: str, inputs: tuple[str, ...], kind: str) -> Node:
    head = " = ".join(part for part in (name, operation) if part)
    label = f"{head}\nvalue   {value.data:g}\nadjoint {value.adjoint:g}".strip()
    return Node(name=_key(value), label=label, inputs=inputs, kind=kind)


def _key(value: Any) -> str:
    return str(id(value))
