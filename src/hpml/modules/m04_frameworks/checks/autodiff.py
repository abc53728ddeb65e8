"""Exercise autodiff: the walk back over a graph of numpy arrays.

`backward(loss)` sets `grad` of the answer's own `Node` objects, which the drive makes. The graphs
are new for each seed (`_recorded_graphs.py`); how the answer is run: `_walk_back.py`; what is right
is torch's (`_graph_gradients.py`).
"""

from dataclasses import replace
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ALL_ELSE, OTHER_PROGRAMS
from hpml.files.sanitize import one_line
from hpml.modules.m04_frameworks.checks._autodiff_picture import autodiff_picture
from hpml.modules.m04_frameworks.checks._gradient_faults import wrong_gradient
from hpml.modules.m04_frameworks.checks._graph_gradients import Gradients, gradients
from hpml.modules.m04_frameworks.checks._recorded_graphs import Graph, graphs
from hpml.modules.m04_frameworks.checks._walk_back import (
    AUTOGRAD,
    EVENTS,
    OF_ZIP,
    RAISED_LIMIT,
    TOO_MANY,
    drive,
)

# What a walk may raise without keeping the other graphs from being judged
RAISED = (
    OF_ZIP,
    "RecursionError",
    "ValueError",
    "KeyError",
    "TypeError",
    "IndexError",
    "AttributeError",
)


def inputs(seed: int, world_size: int) -> list[list[Graph]]:
    """For the only rank: all graphs."""
    return [graphs(seed)]


def expect(given: list[list[Graph]], world_size: int) -> list[Gradients]:
    """By graph."""
    return [gradients(graph) for graph in given[0]]


def judged(run: Run, *kinds: str) -> Problem | None:
    """The first problem among the graphs of these kinds."""
    given, value = run.inputs[0], run.values[0]
    if not isinstance(value, list) or len(value) != len(given):
        return Problem(f"what came back is {described(value)}", "form")
    for graph, truth, found in zip(given, run.expected, value, strict=True):
        if graph["kind"] not in kinds:
            continue
        if not isinstance(found, dict):
            return Problem(f"what came back is {described(found)}", "form")
        problem = (
            raised(graph, found)
            if "raised" in found
            else wrong_gradient(graph, truth, found.get("grads"), found.get("memory"))
        )
        if problem:
            return problem
    return None


def raised(graph: Graph, found: dict[str, Any]) -> Problem:
    """What ended a walk too early."""
    what, kind = found["raised"], graph["kind"]
    if what == TOO_MANY:
        return Problem(
            f"graph {kind!r} of {len(graph['nodes'])} nodes: not done after {EVENTS:,} calls and "
            "returns of functions",
            "paths",
        )
    if what == RAISED_LIMIT:
        return Problem(f"graph {kind!r}: the recursion limit was raised", "recursion")
    what = what if what in RAISED else "an error"
    text = f": {one_line(found['text'])}" if isinstance(found.get("text"), str) else ""
    line = found.get("line")
    at = f" in line {line} of your answer" if isinstance(line, int) and 0 < line < 10_000 else ""
    if what == "RecursionError":
        hint = "recursion"
    elif found.get("function") == "matmul_vjp":
        hint = "matmul"
    elif (kind, what) == ("once", "ValueError") and found.get("function") != "backward":
        hint = "fit"
    else:
        hint = HINT_OF_ERROR.get((kind, what), "raised")
    return Problem(f"graph {kind!r}: backward raised {what}{at}{text}", hint)


HINT_OF_ERROR = {
    ("once", OF_ZIP): "tuple",
    ("shared", "ValueError"): "again",
    ("broadcast", "ValueError"): "shape",
    ("branches", "KeyError"): "opaque",
}


def judge_once(run: Run) -> Problem | None:
    return judged(run, "once")


def judge_shared(run: Run) -> Problem | None:
    return judged(run, "shared")


def judge_broadcast(run: Run) -> Problem | None:
    return judged(run, "broadcast")


def judge_branches(run: Run) -> Problem | None:
    return judged(run, "branches")


def judge_everything(run: Run) -> Problem | None:
    return after_the_parts(run, judged(run, "everything"))


def judge_deep(run: Run) -> Problem | None:
    return after_the_parts(run, judged(run, "chain", "ladder"))


PARTS = (judge_once, judge_shared, judge_broadcast, judge_branches)
OF_DEPTH = ("recursion", "paths")


def after_the_parts(run: Run, problem: Problem | None) -> Problem | None:
    """The same problem; where graphs with less in them are wrong too, their hint says more."""
    if problem and problem.hint not in OF_DEPTH and any(part(run) for part in PARTS):
        return replace(problem, hint="parts")
    return problem


CHECK = Check(
    id="autodiff",
    title="The walk back over a graph",
    names=("Node", "backward"),
    to_write="two derivatives, and the walk back over a graph",
    allowed=ALL_ELSE,
    not_allowed=(AUTOGRAD, OTHER_PROGRAMS),
    inputs=inputs,
    expect=expect,
    drive=drive,
    worlds=(1,),
    process_group=False,
    picture=autodiff_picture,
    claims=(
        Claim("each operation passes its gradient on to its inputs", 3, judge_once),
        Claim("a value used several times gets the sum over its uses", 3, judge_shared),
        Claim("a broadcast value gets the sum over its copies", 3, judge_broadcast),
        Claim("a value that needs no gradient, or gets none, has None", 2, judge_branches),
        Claim("so it is in random graphs of all these", 2, judge_everything),
        Claim("5000 operations in a chain, and 2^40 paths, are no trouble", 2, judge_deep),
    ),
    hints={
        "start": "In which order may nodes pass their gradients on, if each does it once? First "
        "find an order in which every node comes after all that use it. Then go through it once, "
        "and let each node pass its gradient on to its inputs.",
        "form": "backward returns nothing. It sets node.grad, an array, on the nodes that it "
        "walks over, the loss among them.",
        "dtype": "Values are float64, and so are gradients. Which of your calls makes another "
        "dtype?",
        "digits": "This is right but for its last digits. Does something go through float32, or "
        "is a derivative taken by differences? The formulas need neither.",
        "seed": "The walk begins at the loss, whose derivative by itself is 1.",
        "matmul": "Each element of out = a @ b is a sum of products. Which elements of out does "
        "a[i, k] go into, and with which factor? The shapes leave one product of g with a "
        "transposed matrix for each input.",
        "relu": "relu passes on what is above 0. The derivative is 1 where its input is above 0, "
        "and 0 elsewhere: at 0 itself, too.",
        "chain": "A vjp takes the gradient of the node's value, that value, and the values of its "
        "inputs, in this order. What it returns has the order of the inputs.",
        "tuple": "A vjp returns a tuple with a gradient for each input. A tuple of one has a "
        "comma: (x,). Without it the rows of the array are taken for gradients.",
        "raised": "Build such a graph from Node objects in a cell of your own, and call backward "
        "on it: there you see the whole traceback.",
        "add": "This node is used more than once (perhaps twice by one operation), and its "
        "gradient has only some of the uses. Each use adds to what is there.",
        "overwritten": "This gradient is right but for elements that were set to 0. The g that a "
        "vjp gets may be a node's own grad, and that of others: compute in a new array.",
        "parts": "A claim above fails on graphs that have less in them: begin with its hint.",
        "aliasing": "Two nodes have the same array as their gradient: the vjp of add returns one "
        "array twice. What is added to it in place is added for both. Make a new array.",
        "fit": "What comes to this operation does not have the shape of its value; or a whole "
        "array is asked for one truth value. In this graph only matmul changes shapes: does each "
        "gradient that it returns have the shape of its input?",
        "again": "It fails where a node has a gradient already. `if node.grad` asks a whole array "
        "for one truth value: compare with None. And what a vjp returned may be a view that cannot "
        "be written to: do not add to it in place, make a new array.",
        "order": "Some node that uses this one passed its gradient on before it was complete, or "
        "more than once. A node's turn comes when all nodes that use it have had theirs: neither "
        "depth first as found, nor breadth first by distance, is such an order.",
        "shape": "The gradient of a node has the shape of its value. Where broadcasting made a "
        "larger array of it, the vjp's result has the larger shape: both new dimensions in front "
        "and dimensions of length 1 have been repeated. The latter must still be there.",
        "axes": "A broadcast value has many copies, and each gets a gradient: their sum is the "
        "value's. Sum over the dimensions that broadcasting added or repeated, and no others. The "
        "right shape alone does not prove it: look at square arrays.",
        "together": "In this node several uses meet, and not all have its shape. Bring what "
        "each use adds to the node's shape first, and add it then.",
        "constants": "requires_grad is False there: neither a gradient nor a walk through it is "
        "wanted.",
        "reached": "This node requires a gradient, but no way leads to it: every way from the loss "
        "passes a node that requires none. Its grad stays None; zeros would be a gradient.",
        "missing": "This node's gradient must be an array, even if all of it is 0. Every node that "
        "the walk comes to keeps its gradient, leaf or not. Or does your walk wait for a use that "
        "never passes a gradient on? Uses count only in nodes that require one themselves.",
        "opaque": "Operations such as floor and detach have no vjp. They stand only where no "
        "gradient is required. Is requires_grad looked at before a node passes anything on?",
        "recursion": "Python's stack ends after some 1000 nested calls, and a graph can be deeper. "
        "Keep the nodes that are still to be visited in a list of your own, and use a loop.",
        "paths": "In this graph each stage has two ways, so 40 stages have 2^40 paths. Nodes are "
        "few: keep a set of those that were found, and let each pass its gradient on once.",
    },
)
