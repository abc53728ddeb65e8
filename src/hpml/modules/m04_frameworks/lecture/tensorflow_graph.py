"""The graph that tf.function traces, as nodes to draw, and how often it traces.

AutoGraph rewrites the source of a function, so that Python's `if` and loops on tensors become
operators of the graph (Moldovan et al. 2019, arXiv:1810.08061).
"""

import importlib.util
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpml.data import tfrecord
from hpml.modules.m04_frameworks.lecture.graph_layout import Node

if TYPE_CHECKING:
    import tensorflow as tf

# The drawing leaves them out: a copy, and the marker that an unused argument gets
COPIES = ("Identity", "StopGradient")


def missing() -> str:
    """What to do for TensorFlow where it is not installed; empty where it is."""
    if importlib.util.find_spec("tensorflow") is None:
        return "tensorflow is not installed: ./hpml doctor says how to get it"
    return ""


def tensorflow() -> Any:
    """TensorFlow, which logs only errors. Raises UserError without it."""
    tf = tfrecord.tensorflow(remarks=False)
    tf.get_logger().setLevel("ERROR")  # a warning for each retrace: here they are counted
    return tf


def nodes_of(concrete: "tf.types.experimental.ConcreteFunction") -> list[Node]:
    """The operators of a concrete function. Constants stand in the label of the operator that takes
    them, and an If has the operators of its branches in its label."""
    graph = concrete.graph
    nodes: list[Node] = []
    same: dict[str, str] = {}  # a copy's name, to the name of what it copies
    constant: dict[str, str] = {}
    for operation in graph.get_operations():
        inputs = [tensor.op.name for tensor in operation.inputs]
        if operation.type == "Const":
            constant[operation.name] = _number(operation)
        elif operation.type in COPIES:
            same[operation.name] = same.get(inputs[0], inputs[0])
        else:
            sources = tuple(same.get(name, name) for name in inputs if name not in constant)
            numbers = [constant[name] for name in inputs if constant.get(name)]
            nodes.append(_node(operation, graph, sources, numbers))
    results = [tensor.op.name for tensor in concrete.outputs]
    outputs = tuple(same.get(name, name) for name in results if name not in constant)
    return [*nodes, Node("output", "output", outputs, "output")]


def traces_after_each(function: Callable[[Any], Any], values: Sequence[Any]) -> list[int]:
    """How often Python has run `function` after each call of tf.function(function) with a value."""
    tf = tensorflow()
    runs = 0

    def counted(value: Any) -> Any:
        nonlocal runs
        runs += 1  # a side effect of Python: no operator of the graph
        return function(value)

    compiled = tf.function(counted, autograph=False)
    after = []
    for value in values:
        compiled(value)
        after.append(runs)
    return after


def rewritten_if(function: Any) -> str:
    """The lines that AutoGraph writes for the `if` of a tf.function; "" if there is none."""
    import tensorflow as tf

    lines = tf.autograph.to_code(function.python_function).splitlines()
    first = next((k for k, line in enumerate(lines) if "def if_body" in line), len(lines))
    last = next((k for k, line in enumerate(lines) if "ag__.if_stmt" in line), -1)
    return textwrap.dedent("\n".join(lines[first : last + 1]))


def _node(operation: Any, graph: Any, inputs: tuple[str, ...], numbers: Sequence[str]) -> Node:
    if operation.type == "Placeholder":
        shape = operation.outputs[0].shape
        return Node(operation.name, f"{operation.name}\n{shape.as_list()}", inputs, "input")
    if operation.type in ("If", "StatelessIf"):
        then, other = (
            _inside(graph, operation.get_attr(branch).name)
            for branch in ("then_branch", "else_branch")
        )
        label = f"{operation.type}\nthen: {then}\nelse: {other}"
        return Node(operation.name, label, inputs, "control")
    return Node(operation.name, " ".join([operation.type, *numbers]), inputs)


def _inside(graph: Any, name: str) -> str:
    body = graph._get_function(name).graph
    skipped = (*COPIES, "Placeholder", "Const", "NoOp")
    names = [operation.type for operation in body.get_operations() if operation.type not in skipped]
    return ", ".join(names) or "nothing"


def _number(operation: Any) -> str:
    """The constant as text, where it is a single number; "" for the axes of a sum and the like."""
    from tensorflow import make_ndarray

    value = make_ndarray(operation.get_attr("value"))
    return f"{value.item():g}" if value.ndim == 0 else ""
