"""Exercise static_graph: run a recorded graph with the least memory, and choose a better order.

`plan(graph) -> list[tuple[str, str]]` and `order(graph) -> list[str]`. The parent executes what
they return (`_executed_plan.py`) and counts the live bytes: nothing there is the answer's word.
"""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m04_frameworks.checks._executed_plan import (
    Executed,
    Graph,
    Wrong,
    execute,
    malformed,
    memory_of,
)
from hpml.modules.m04_frameworks.checks._live_bytes_picture import live_bytes_picture
from hpml.modules.m04_frameworks.checks._ordered_tree import finishes_branches, peak_of

PLAYS = Drawn(__package__, "static_graph")
# Kinds of mistakes that a case's own trap explains, where all cases before it are right
TRAPPED = ("early", "again", "given", "view", "output", "left", "late", "dead")
Case = Mapping[str, Any]  # "graph", "words", "trap"; "dead": nodes that no output needs; "least"


def drive(answer: ModuleType, given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What both functions return. One that raises does so for itself alone, unless neither is
    written yet."""
    unwritten: dict[str, NotImplementedError] = {}

    def tried(function: str, graph: Any) -> Any:
        try:
            return getattr(answer, function)(graph)
        except Exception as error:
            if isinstance(error, NotImplementedError):
                unwritten[function] = error
            lines = str(error).splitlines() or [""]
            return {"raised": f"{type(error).__name__}: {lines[0]}"[:200]}

    found = {
        "plans": [tried("plan", graph) for graph in given["plans"]],
        "orders": [tried("order", graph) for graph in given["orders"]],
    }
    if len(unwritten) == 2:
        raise unwritten["plan"]
    return found


# ---- the plans


def executed(run: Run) -> Iterator[tuple[Case, Executed | Problem]]:
    """By case: what the answer's plan did, or why it cannot be executed."""
    given, right = run.inputs[0], run.expected["plans"]
    plans = _returned(run, "plans")
    for graph, about, due, plan in zip(given["plans"], given["about"], right, plans, strict=True):
        case = {"graph": graph, **about, **due}
        if problem := _raised(case["words"], plan):
            yield case, problem
            continue
        result = malformed(plan) or execute(graph, plan)
        yield case, _problem(case, result) if isinstance(result, Wrong) else result


def _returned(run: Run, what: str) -> list[Any]:
    value = run.values[0]
    count = len(run.inputs[0][what])
    found = value.get(what) if isinstance(value, dict) else None
    return found if isinstance(found, list) and len(found) == count else [None] * count


def _raised(where: str, value: Any) -> Problem | None:
    if not isinstance(value, dict) or not isinstance(value.get("raised"), str):
        return None
    if value["raised"].startswith(NotImplementedError.__name__):
        return Problem(f"{where}: the function is not written yet", "start")
    return Problem(f"{where}: {value['raised']}", "raised")


def _problem(case: Case, wrong: Wrong) -> Problem:
    kind = case["trap"] if case["trap"] and wrong.kind in TRAPPED else wrong.kind
    return Problem(f"{case['words']}: {wrong.message}", kind)


def judge_alive(run: Run) -> Problem | None:
    for case, result in executed(run):
        if isinstance(result, Problem):
            return result
        kept = [node["name"] for node in case["graph"]["nodes"] if node["name"] in result.ran]
        moved = [name for name, due in zip(result.ran, kept, strict=True) if name != due]
        if moved:
            message = (
                f"{case['words']}: {moved[0]} runs in another place than in the recorded order"
            )
            return Problem(message, "recorded_order")
        missing = [output for output in case["graph"]["outputs"] if output not in result.ran]
        if missing:
            return Problem(f"{case['words']}: the output {missing[0]} has not run", "missing")
    return None


def judge_left(run: Run) -> Problem | None:
    for case, result in executed(run):
        if isinstance(result, Problem):
            return result
        owner = memory_of(case["graph"])
        for name in result.ran:
            if name in case["dead"]:
                return _problem(case, Wrong("dead", f"{name} runs, and no output needs it"))
        outputs = {owner[name]: name for name in case["graph"]["outputs"]}
        for base, name in outputs.items():
            if base not in result.left and base not in case["graph"]["given"]:
                what = name if base == name else f"{base}, which has the memory of {name},"
                return _problem(case, Wrong("output", f"the output {what} is gone at the end"))
        if more := sorted(result.left - outputs.keys()):
            wrong = Wrong("left", f"{more[0]} is alive at the end, and is not an output")
            return _problem(case, wrong)
    return None


def judge_peak(run: Run) -> Problem | None:
    if problem := judge_alive(run):
        return problem
    for case, result in executed(run):
        if isinstance(result, Executed) and result.peak > case["least"]:
            wrong = Wrong("late", f"the peak is {result.peak:,} bytes")
            seen = _problem(case, wrong)
            return Problem(seen.message, seen.hint, f"{case['least']:,}")
    return None


# ---- the orders


def ordered(run: Run) -> Iterator[tuple[str, Graph, list[str] | Problem]]:
    """By tree: its name, itself, and the order that the answer chose, or why that is none."""
    graphs = run.inputs[0]["orders"]
    for number, (graph, order) in enumerate(zip(graphs, _returned(run, "orders"), strict=True), 1):
        where = f"tree {number}, of {len(graph['nodes'])} nodes"
        problem = _raised(where, order) or _no_order(where, graph, order)
        yield where, graph, problem or list(order)


def _no_order(where: str, graph: Graph, order: Any) -> Problem | None:
    inputs = {node["name"]: node["inputs"] for node in graph["nodes"]}
    if not isinstance(order, list | tuple) or not all(isinstance(one, str) for one in order):
        return Problem(f"{where}: order returned {described(order)}", "order_shape")
    if sorted(order) != sorted(inputs):
        message = f"{where}: the list has {len(order)} names, {len(set(order))} different ones"
        return Problem(message, "order_shape", f"each of the {len(inputs)} nodes once")
    done = set(graph["given"])
    for name in order:
        for source in inputs[name]:
            if source not in done:
                return Problem(f"{where}: {name} comes before its input {source}", "topological")
        done.add(name)
    return None


def judge_smaller(run: Run) -> Problem | None:
    return _too_high(run, "smaller")


def judge_least(run: Run) -> Problem | None:
    return judge_smaller(run) or _too_high(run, "least")


def _too_high(run: Run, bound: str) -> Problem | None:
    """A tree whose peak is above its bound: one with unfinished branches, if there is one."""
    found: dict[str, Problem] = {}
    for (where, graph, order), due in zip(ordered(run), run.expected["orders"], strict=True):
        if isinstance(order, Problem):
            return order
        peak, most = peak_of(graph, order), due[bound]
        if peak > most:
            hint = "first" if finishes_branches(graph, order) else "finish"
            message = f"{where}: the peak is {peak:,} bytes"
            found.setdefault(hint, Problem(message, hint, f"{most:,} at most"))
    return found.get("finish") or found.get("first")


CHECK = Check(
    id="static_graph",
    title="A recorded graph in little memory",
    names=("plan", "order"),
    to_write="a plan that frees each tensor in time, and an order that needs less",
    allowed=ANYTHING,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    worlds=(1,),
    process_group=False,
    picture=live_bytes_picture,
    claims=(
        Claim("every node that runs finds its inputs alive, in the recorded order", 2, judge_alive),
        Claim("nothing runs that no output needs, and only outputs are left", 3, judge_left),
        Claim("no plan for this order has a smaller peak", 3, judge_peak),
        Claim("the chosen order of a tree needs less than the recorded one", 2, judge_smaller),
        Claim("and as little as the best order that finishes its branches", 3, judge_least),
    ),
    hints={
        "start": "For `plan`, go through the recorded order backwards: the first time that you "
        "meet a tensor as an input is its last use. For `order`, begin with a node and two "
        "branches: which of them runs first?",
        "shape": "A plan is a list of pairs ('run', name) and ('free', name).",
        "unknown": "Names are those of the graph's nodes.",
        "again": "Each node runs once, and each tensor is freed once, after its node has run.",
        "order": "The recorded order has each node after its inputs. If a node's input has not "
        "run, it was left out, or comes later in your plan: some output depends on it.",
        "recorded_order": "For `plan` the order is that of `graph['nodes']`. Leave out what no "
        "output needs, and move nothing.",
        "missing": "A plan ends when all outputs have been computed. Which nodes does an output "
        "depend on, through its inputs and theirs?",
        "given": "The caller's tensors, the batch and the weights, are there before and after: "
        "they are neither run nor freed.",
        "early": "A tensor may be read by several nodes, some of them far away, as with a skip "
        "connection: only after the last of them has run may it be freed.",
        "twice": "A node may read one tensor twice, as x * x does: that is one node, and two "
        "entries in `inputs`. Whatever you count, add and subtract it in the same way, and free a "
        "tensor once.",
        "view": "A view has no memory of its own, so there is nothing to free of it. Its base is "
        "freed when neither it nor any of its views is read any more.",
        "views": "A view lies in the memory of its first input. The base is in use until the last "
        "node has read it, or a view of it, or a view of that. What is a view of a given tensor "
        "frees nothing; and where an output is a view, its base stays.",
        "output": "An output is handed to the caller when all is over: it is never freed, no "
        "matter which nodes read it before.",
        "dead": "No output depends on this node, or it is read by such nodes only: begin at the "
        "outputs and go back through the inputs. What you do not reach does not run, and does not "
        "count as a use of what it reads.",
        "left": "At the end the outputs alone are alive. Everything else has a last use, and is "
        "freed after it.",
        "late": "While a node runs there are its inputs, its output, and what later nodes need: "
        "nothing more. A tensor whose last use is over is freed before the next node runs.",
        "order_shape": "`order` returns a list with the name of every node once; given tensors are "
        "not among them.",
        "topological": "A node runs after all of its inputs. Begin at the output: before it come "
        "its inputs, and before each of them its own.",
        "finish": "Half-finished branches hold large tensors. Run one branch to its end, where it "
        "is small, before you begin the next.",
        "first": "Each branch has a peak while it runs, and leaves something behind. What is left "
        "lies there during all branches that come after it. Take two branches, write down the peak "
        "of both orders, and see which difference decides.",
        "raised": "The exception names the graph. A node may have no inputs, or given ones only, "
        "and an output may be read by other nodes, or be a view.",
    },
)
