"""The picture of an answer to autodiff: a small graph, each node with the gradient it got."""

import io
import random
from typing import Any

import numpy as np

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.modules.m04_frameworks.checks._gradient_faults import as_array, few
from hpml.modules.m04_frameworks.checks._graph_gradients import gradients
from hpml.modules.m04_frameworks.checks._recorded_graphs import Drawing, Graph
from hpml.ranks import launch

LIMIT = 10.0  # seconds
RIGHT, WRONG, NONE = "grad as torch has it", "another grad than torch's", "grad is None"


def autodiff_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: a layer with a bias, used twice, a detached branch and a constant."""
    from hpml.modules.m04_frameworks.lecture.graph_picture import (
        Node,
        graph_picture,
    )  # with Matplotlib

    graph, names = shown()
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[[graph]],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    [found] = evidence.values[0]
    if "raised" in found:
        raise ValueError(f"backward raised {found['raised']}")
    truth = gradients(graph)
    nodes, marks = [], {}
    for place, (operation, inputs, grad, _) in enumerate(graph["nodes"]):
        mine, due = as_array(found["grads"][place]), truth.expected[place]
        name = names.get(place, "")
        head = " = ".join(x for x in (name, "" if operation == "leaf" else operation) if x)
        leaf = "parameter" if grad else "constant"
        kind = "output" if place == len(graph["nodes"]) - 1 else leaf
        marks[str(place)] = mark(mine, due)
        sign = " ✗" * (marks[str(place)] == WRONG)  # for readers who see no colours
        label = f"{head} {truth.values[place].shape}{sign}\ngrad {brief(mine)}"
        kind = "op" if operation != "leaf" and kind != "output" else kind
        nodes.append(Node(str(place), label, tuple(map(str, inputs)), kind))
    marks = dict(sorted(marks.items(), key=lambda one: (WRONG, RIGHT, NONE).index(one[1])))
    wrong = sum(text == WRONG for text in marks.values())
    wanted = sum(due is not None for due in truth.expected)
    title = (
        f"Gradients that differ from torch's: {wrong} of {len(nodes)}"
        if wrong
        else f"{wanted} nodes have the gradient of torch, {len(nodes) - wanted} have none"
    )
    figure = graph_picture(nodes, title=title, marks=marks)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        f"{title}. A layer with a bias, whose result is used three times, once detached. Each box: "
        "operation, shape, and the gradient that your backward set."
    )
    return Picture(image.getvalue(), words)


def shown() -> tuple[Graph, dict[int, str]]:
    """The same graph for everybody, and the names of some nodes."""
    made = Drawing(random.Random(4))
    names = {}

    def named(name: str, place: int) -> int:
        names[place] = name
        return place

    x = named("x", made.leaf(2, 3, grad=False))
    w, b = named("w", made.leaf(3, 2)), named("b", made.leaf(1, 2))
    h = named("h", made.op("add", made.op("matmul", x, w), b))
    squared = made.op("mul", h, h)
    gated = made.op("mul", made.op("detach", h), made.op("tanh", squared))
    total = made.op("add", gated, made.op("relu", h))
    named("loss", made.op("sum", total))
    return made.graph("shown"), names


def mark(mine: Any, due: Any) -> str:
    """What is said of a node by the colour of its edge."""
    if mine is None and due is None:
        return NONE
    if due is None or not isinstance(mine, np.ndarray) or mine.shape != due.shape:
        return WRONG
    return RIGHT if np.allclose(mine, due, rtol=1e-9, atol=1e-12) else WRONG


def brief(grad: Any) -> str:
    """A gradient in a box: its shape where it has one, and its first elements."""
    if not isinstance(grad, np.ndarray):
        return str(grad) if grad is None else type(grad).__name__
    return few(grad) if grad.ndim < 2 else f"{grad.shape}\n{few(grad)}"
