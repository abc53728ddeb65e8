"""Which gradient of a graph is wrong first, on the way back, and which hint explains it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from hpml.checks.compare import described
from hpml.checks.contract import Problem
from hpml.modules.m04_frameworks.checks._graph_gradients import Array, Gradients, Use
from hpml.modules.m04_frameworks.checks._recorded_graphs import Graph

# Of what was added up. Sums in another order differ by 1e-15, derivatives by differences by more.
TOLERANCE = 1e-12
DEEP_TOLERANCE = 1e-10  # after thousands of operations
NEARLY = 1e-5
MOST_USES = 10  # of one value, whose sums are compared: 2^10 of them
STRICT = ("branches", "everything")  # kinds in which nodes without a gradient must have None
SHOWN = 4  # elements of an array, in a sentence


def wrong_gradient(graph: Graph, truth: Gradients, found: Any, memory: Any) -> Problem | None:
    """The first wrong gradient, from the loss on, as a Problem; or None.

    `found` is what came back: for each node that is kept, None or an array. `memory` has the
    address of each array, or None.
    """
    kept = graph["kept"]
    for what in (found, memory):
        if not isinstance(what, list) or len(what) != len(kept):
            return Problem(f"what came back is {described(what)}", "form")
    grads = {place: as_array(grad) for place, grad in zip(kept, found, strict=True)}
    if kept and all(grad is None for grad in grads.values()):
        return Problem(f"{name(graph, kept[-1])}: grad is None, and so it is on every node", "form")
    places = [address if type(address) is int else None for address in memory]
    walk = Walk(graph, truth, grads, dict(zip(kept, places, strict=True)))
    for place in sorted(kept, reverse=True):
        if problem := _wrong(walk, place):
            return problem
    return None


@dataclass(frozen=True)
class Walk:
    """A graph, what is right, and what an answer found."""

    graph: Graph
    truth: Gradients
    grads: Mapping[int, Any]
    # Where each gradient's elements are: for a hint, and for nothing else
    memory: Mapping[int, int | None]


def _wrong(walk: Walk, place: int) -> Problem | None:
    grad, due = walk.grads[place], walk.truth.expected[place]
    where = name(walk.graph, place)
    if due is None:
        unwanted = grad is not None and walk.graph["kind"] in STRICT
        return (
            Problem(f"{where}: grad is set", _unwanted(walk, place), "None") if unwanted else None
        )
    if grad is None:
        return Problem(f"{where}: grad is None", "missing", "an array")
    if not isinstance(grad, np.ndarray):
        return Problem(f"{where}: grad is {described(grad)}", "form", "an array")
    if grad.shape != due.shape:
        rule = _rule(walk, place)
        plain = rule == "chain" and due.shape and 1 not in due.shape
        hint = rule if plain or rule == "matmul" else "shape"
        if rule == "relu":
            hint = "tuple" if grad.shape == due.shape[1:] else "relu"
        return Problem(f"{where}: grad has shape {grad.shape}", hint, f"{due.shape}")
    if grad.dtype != np.float64:
        return Problem(f"{where}: grad is {grad.dtype}", "dtype", "float64")
    if _same(walk, place, grad, due):
        return None
    return Problem(f"{where}: grad is {few(grad)}", _why(walk, place), few(due))


def _same(walk: Walk, place: int, one: Array, other: Array) -> bool:
    allowed = DEEP_TOLERANCE if walk.graph["kind"] == "chain" else TOLERANCE
    return bool((np.abs(one - other) <= allowed * walk.truth.scale[place]).all())


def _close(one: Array, other: Array) -> bool:
    """Right but for rounding, of another dtype or of differences."""
    return bool(np.abs(one - other).max() <= NEARLY * np.abs(other).max())


def _unwanted(walk: Walk, place: int) -> str:
    """Why a node has a gradient that should have none."""
    return "reached" if walk.graph["nodes"][place][2] else "constants"


def _why(walk: Walk, place: int) -> str:
    """The hint for a gradient that is wrong, although those of its users are right."""
    grad, uses = walk.grads[place], walk.truth.uses[place]
    if _close(grad, walk.truth.expected[place]):
        return "digits"
    if not uses:
        return "seed"
    # One of several uses passed on too early can look like one that was left out. So a graph that
    # comes before has no such uses, and an answer that leaves one out fails there.
    early = any(len(walk.truth.uses[use.user]) > 1 for use in uses)
    if not early and _some_left_out(walk, place):
        return "add"
    alike = [node for node in walk.memory if walk.memory[node] == walk.memory[place] is not None]
    if len(alike) > 1 and any(len(walk.truth.uses[node]) > 1 for node in alike):
        return "aliasing"
    if early:
        return "order"
    rule = _rule(walk, place)
    return "overwritten" if rule == "chain" and _zeroed(walk, place) else rule


def _some_left_out(walk: Walk, place: int) -> bool:
    """Whether a gradient is the sum over some of the uses."""
    uses, grad = walk.truth.uses[place], walk.grads[place]
    return any(
        _same(walk, place, grad, _total(some))
        for count in range(1, min(len(uses), MOST_USES))
        for some in combinations(uses, count)
    )


def _zeroed(walk: Walk, place: int) -> bool:
    """Whether a gradient is right but for some elements that are 0. All of them may be in that of
    a relu, whose own vjp has masked it: what that passes on is right."""
    grad, due = walk.grads[place], walk.truth.expected[place]
    zero = (grad == 0) & (due != 0)
    some = bool(zero.any()) and (bool(grad.any()) or walk.graph["nodes"][place][0] == "relu")
    return some and _same(walk, place, np.where(zero, due, grad), due)


def _rule(walk: Walk, place: int) -> str:
    """What stands between this node and its users, each of which had its gradient in one go."""
    nodes, values = walk.graph["nodes"], walk.truth.values
    causes = set()
    for use in walk.truth.uses[place]:
        operation = nodes[use.user][0]
        copied = np.shape(values[place]) != np.shape(values[use.user])
        if operation in ("matmul", "relu"):
            causes.add(operation)
        elif operation in ("add", "mul") and copied:
            causes.add("axes")
        else:
            causes.add("chain")
    return causes.pop() if len(causes) == 1 else "together"


def _total(uses: Sequence[Use]) -> Array:
    return sum((use.adds for use in uses[1:]), uses[0].adds)


def as_array(value: Any) -> Any:
    """A float as an array without dimensions, a tensor as an array; others as they are."""
    if isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.float32):
        return value.numpy()
    return np.array(value) if isinstance(value, float) else value


def name(graph: Graph, place: int) -> str:
    """A node in words: its operation, and which one of how many."""
    operation, inputs, grad, _ = graph["nodes"][place]
    if operation == "leaf":
        kind = "leaf" if grad else "constant leaf"
    else:
        kind = f"{operation} of {' and '.join(graph['nodes'][i][0] for i in inputs)}"
    last = place == len(graph["nodes"]) - 1
    return f"graph {graph['kind']!r}, node {place} ({'the loss' if last else kind})"


def few(array: Array) -> str:
    """The first elements of an array, for a sentence."""
    flat = [f"{x:.4g}" for x in np.ravel(array)[:SHOWN]]
    return f"[{', '.join(flat)}{', …' if np.size(array) > SHOWN else ''}]"
