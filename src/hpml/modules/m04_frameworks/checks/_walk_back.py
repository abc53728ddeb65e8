"""The answer's walk back over each graph, on a rank; autograd, recursion and visits are watched."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch

from hpml.answer.enforce import NotAllowed
from hpml.answer.rules import ReadyMade
from hpml.checks.kits.ready_made import WALK
from hpml.modules.m04_frameworks.checks._recorded_graphs import Graph, values_of

AUTOGRAD = ReadyMade(
    "`torch.autograd` and what uses it (`Tensor.backward`, `torch.func`)",
    (
        *WALK,
        "torch.autograd.forward_ad.make_dual",
        "torch._C._FunctionBase",
    ),
    keys=("Autograd",),
)
EVENTS = 200_000  # calls and returns that a walk over the ladder may take; the solution: some 3000
OF_ZIP = "ValueError in zip"
TOO_MANY, RAISED_LIMIT = "too many visits", "recursion limit raised"
TEXT = 160  # characters of an exception's, its last ones
LIMIT = 1000  # of recursion, as Python sets it


class TooManyVisits(Exception):
    """A walk over the ladder has not ended after EVENTS."""


class RecursionLimitRaised(Exception):
    """A walk over the chain raised Python's limit."""


def drive(answer: ModuleType, given: list[Graph]) -> list[dict[str, Any]]:
    """By graph, the nodes' "grads" and where they are; or "raised", its "text", and "line" of the
    answer."""
    sys.setrecursionlimit(LIMIT)  # whatever the answer did when it was imported
    found: list[dict[str, Any]] = []
    errors = []
    nodes = recorded()
    for graph in given:
        try:
            grads = walked(answer, graph)
            found.append({"grads": grads, "memory": [*map(address, grads)]})
        except TooManyVisits:
            found.append({"raised": TOO_MANY})
        except RecursionLimitRaised:
            found.append({"raised": RAISED_LIMIT})
        except (RecursionError, ValueError, LookupError, TypeError, AttributeError) as error:
            errors.append(error)
            line, function = answer_line(error, answer)
            what = OF_ZIP if "zip()" in str(error) else type(error).__name__
            text = str(error).partition("\n")[0][-TEXT:]
            found.append({"raised": what, "text": text, "line": line, "function": function})
        sys.setrecursionlimit(LIMIT)
    if recorded() != nodes:
        raise NotAllowed(
            "your answer has torch.autograd record what it computes; not allowed here: "
            f"{AUTOGRAD.shown.replace('`', '')}"
        )
    if len(errors) == len(given):
        raise errors[0]  # with its traceback
    return found


def recorded() -> int:
    """How many operations torch.autograd has recorded in this thread.

    Its walk is refused by name, and has many: this counts what there is to walk over, however the
    walk is begun, or a derivative asked of each operation by itself.
    """
    return torch._C._autograd._get_sequence_nr()


def walked(answer: ModuleType, graph: Graph) -> list[Any]:
    """The gradients that the answer finds for the nodes that are kept."""
    nodes: list[Any] = []
    for (operation, inputs, grad, _), value in zip(
        graph["nodes"], values_of(graph["nodes"]), strict=True
    ):
        nodes.append(answer.Node(operation, tuple(nodes[i] for i in inputs), value, grad))
    if graph["kind"] == "chain":
        with limit_watched():
            answer.backward(nodes[-1])
    else:
        if graph["kind"] == "ladder":
            count_visits()
        try:
            answer.backward(nodes[-1])
        finally:
            sys.setprofile(None)
    return [nodes[place].grad for place in graph["kept"]]


def address(grad: Any) -> int | None:
    """Where an array's elements are. A number of numpy's, as a sum may be, has no place."""
    return grad.__array_interface__["data"][0] if isinstance(grad, np.ndarray) else None


@contextmanager
def limit_watched() -> Iterator[None]:
    """Raises RecursionLimitRaised at the end if the limit was raised meanwhile, even if it was put
    back, and in whichever thread."""
    highest = LIMIT

    def event(frame: Any, what: str, value: Any) -> None:
        nonlocal highest
        highest = max(highest, sys.getrecursionlimit())

    threading.setprofile(event)
    sys.setprofile(event)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        if max(highest, sys.getrecursionlimit()) > LIMIT:
            raise RecursionLimitRaised


def count_visits() -> None:
    """Let this thread raise TooManyVisits after EVENTS calls and returns."""
    left = EVENTS

    def event(frame: Any, what: str, value: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise TooManyVisits

    sys.setprofile(event)


def answer_line(error: Exception, answer: ModuleType) -> tuple[int, str]:
    """The answer's line that was at work, or 0, and its function."""
    file = getattr(getattr(answer.backward, "__code__", None), "co_filename", None)
    trace, line, function = error.__traceback__, 0, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == file:
            line, function = trace.tb_lineno, code.co_name
        trace = trace.tb_next
    return line, function
