"""What torch.compile captures of a function: graphs of operators, and how often it captures.

Dynamo reads the bytecode of a function and collects its operators in graphs (Ansel et al. 2024,
PyTorch 2, section 3). Here a backend keeps each graph and runs it as it is, so no compiler is
needed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from hpml.modules.m04_frameworks.lecture.graph_layout import Node


def captured(function: Callable[..., Any], *calls: Sequence[Any]) -> list[list[Node]]:
    """The graphs that are captured while `function` is called with each of `calls`, in order.

    A function without a graph break gives one graph, as long as the calls agree in what its guards
    look at. What was captured before is forgotten.
    """
    graphs: list[list[Node]] = []

    def keep(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        graphs.append(nodes_of(graph.graph))
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=keep)
    for call in calls:
        compiled(*call)
    torch._dynamo.reset()
    return graphs


def captures_after_each(
    function: Callable[..., Any], calls: Sequence[Sequence[Any]], *, dynamic: bool | None = None
) -> list[int]:
    """How many graphs there are after each of `calls`; a new one is a recompilation.

    `dynamic` is that of `torch.compile`: False makes a graph for each shape, None (its default)
    one for the first shape and then one for any shape.
    """
    count = 0

    def keep(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        nonlocal count
        count += 1
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=keep, dynamic=dynamic)
    after = []
    for call in calls:
        compiled(*call)
        after.append(count)
    torch._dynamo.reset()
    return after


def nodes_of(graph: fx.Graph) -> list[Node]:
    """The nodes of an fx graph for `graph_picture`. Inputs have their shape; numbers that an
    operator takes stand in its label."""
    return [_node(node) for node in graph.nodes]


def _node(node: fx.Node) -> Node:
    inputs = tuple(one.name for one in node.all_input_nodes)
    if node.op == "placeholder":
        value = node.meta.get("example_value", node.meta.get("val"))
        shape = f"\n{list(value.shape)}" if isinstance(value, Tensor) else ""
        return Node(node.name, f"{_argument(str(node.target))}{shape}", inputs, "input")
    if node.op == "get_attr":
        return Node(node.name, str(node.target), inputs, "parameter")
    if node.op == "output":
        return Node(node.name, "output", inputs, "output")
    target = node.target if isinstance(node.target, str) else node.target.__name__
    numbers = [f"{value:g}" for value in node.args if type(value) in (int, float)]
    return Node(node.name, " ".join([target.split(".")[0], *numbers]), inputs)


def _argument(target: str) -> str:
    """Dynamo calls the argument g of a function L_g_: L for local."""
    return target[2:-1] if target.startswith("L_") and target.endswith("_") else target
