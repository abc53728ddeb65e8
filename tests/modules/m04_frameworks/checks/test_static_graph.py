"""The check of static_graph: what its judges make of right and wrong values."""

import json
import random
from functools import cache
from types import ModuleType

import numpy as np
import pytest
import torch

from hpml.answer import as_python
from hpml.checks.contract import Run
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m04_frameworks.checks._executed_plan import (
    Executed,
    Wrong,
    execute,
    memory_of,
)
from hpml.modules.m04_frameworks.checks._ordered_tree import branches, finishes_branches, peak_of
from hpml.modules.m04_frameworks.checks.instructors import _record_network
from hpml.modules.m04_frameworks.checks.instructors._least_live import least_live, needed
from hpml.modules.m04_frameworks.checks.instructors._plan_cases import cases, network, recorded_by
from hpml.modules.m04_frameworks.checks.instructors._tree_orders import (
    RIVALS,
    made,
    peak_and_order,
)
from hpml.modules.m04_frameworks.checks.instructors.static_graph import trees
from hpml.modules.m04_frameworks.checks.static_graph import CHECK, drive
from hpml.ranks.evidence import Evidence, RankEvidence

WRONG = wrong_answers.read(schedule.load(), "static_graph")
SEEDS = range(8)
SMALL = {
    "nodes": [
        {"name": "linear", "inputs": ["batch"], "bytes": 800, "view": False},
        {"name": "relu", "inputs": ["linear"], "bytes": 800, "view": False},
        {"name": "flat", "inputs": ["linear"], "bytes": 0, "view": True},
        {"name": "loss", "inputs": ["relu", "flat"], "bytes": 4, "view": False},
    ],
    "given": ["batch"],
    "outputs": ["loss"],
}
NAMES = [node["name"] for node in SMALL["nodes"]]
RUNS = [("run", name) for name in NAMES]


@cache
def drawn(seed: int):
    """Inputs and expected values."""
    given = CHECK.inputs(seed, 1)
    return given, CHECK.expect(given, 1)


def run_of(value, seed: int = 0) -> Run:
    evidence = Evidence(1, (RankEvidence(0, "returned", value=value),), 0.1)
    return Run(1, seed, *drawn(seed), evidence, {"play": evidence})


def problems(value, seed: int = 0) -> list:
    return [claim.judge(run_of(value, seed)) for claim in CHECK.claims]


def hints(value, seed: int = 0) -> list[str]:
    return [problem.hint if problem else "" for problem in problems(value, seed)]


def returned(source: str, seed: int):
    """What an answer returns, played in this process."""
    answer = ModuleType("answer")
    exec(source, vars(answer))
    ((given,), _) = drawn(seed)
    return drive(answer, json.loads(json.dumps(given)))


@pytest.fixture(scope="module")
def right(solution):
    return returned(as_python(solution("static_graph")), 0)


# ---- answers


def test_the_right_answer_is_right_whatever_the_graphs(solution):
    source = as_python(solution("static_graph"))
    for seed in range(30):
        assert hints(returned(source, seed), seed) == [""] * 5, seed


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_answer_gets_its_hint_whatever_the_graphs(wrong, solution):
    source = as_python(wrong.answer(solution("static_graph")))
    for seed in SEEDS:
        assert next(filter(None, hints(returned(source, seed), seed)), "") == wrong.hint, seed


def test_half_an_answer_earns_its_own_claims(solution):
    whole = as_python(solution("static_graph"))
    plan_alone = whole.replace("nodes = {node", "raise NotImplementedError()\n    nodes = {node")
    assert hints(returned(plan_alone, 0)) == ["", "", "", "start", "start"]
    order_alone = whole.replace("base = {name:", "raise NotImplementedError()\n    base = {name:")
    assert hints(returned(order_alone, 0)) == ["start", "start", "start", "", ""]
    with pytest.raises(NotImplementedError):
        returned(plan_alone.replace("base = {", "raise NotImplementedError()\n    base = {"), 0)


def test_graphs_are_fresh_for_every_seed():
    for number in range(len(cases(0))):
        assert len({json.dumps(cases(seed)[number].graph) for seed in SEEDS}) > 4
    assert len({json.dumps(trees(seed)) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize(
    "value", [None, 3, [], {}, {"plans": 3, "orders": "x"}, {"plans": [None], "orders": [[]]}]
)
def test_what_has_another_shape_is_reported(value):
    assert hints(value) == ["shape"] * 3 + ["order_shape"] * 2


@pytest.mark.parametrize(
    "odd",
    [
        *(7, "run", [3], [("run",)], [("go", "x")], [("run", 3)], [(["run"], "x")], [{}], ["ab"]),
        *([(np.arange(2), "x")], [torch.ones(2, 2)], [("run", torch.ones(3))]),
    ],
)
def test_what_is_no_plan_is_reported(odd, right):
    plans = [odd, *right["plans"][1:]]
    assert hints({**right, "plans": plans}) == ["shape"] * 3 + ["", ""]


@pytest.mark.parametrize(
    "odd", [7, "abc", [3], [["a"]], {}, None, [], torch.ones(2), [torch.ones(2)]]
)
def test_what_is_no_order_is_reported(odd, right):
    orders = [odd, *right["orders"][1:]]
    assert hints({**right, "orders": orders})[3:] == ["order_shape"] * 2


def test_a_node_that_moves_is_reported(right):
    number = 1
    plan = [tuple(step) for step in right["plans"][number]]
    graph = cases(0)[number].graph
    extra = {**graph, "nodes": [*graph["nodes"]]}
    assert isinstance(execute(extra, plan), Executed)
    tree = {"plans": right["plans"], "orders": right["orders"]}
    # In the recorded network two gradients of one convolution may run in either order
    steps = [list(step) for step in right["plans"][-1]]
    runs = [place for place, step in enumerate(steps) if "convolution_backward.0" in step[1:]]
    other = [place for place, step in enumerate(steps) if "convolution_backward.1" in step[1:]]
    first, second = runs[0], other[0]
    steps[first], steps[second] = steps[second], steps[first]
    tree["plans"] = [*right["plans"][:-1], steps]
    assert hints(tree)[0] in ("recorded_order", "early")


# ---- the picture


def test_the_picture_shows_the_plan_of_the_network(solution):
    whole = solution("static_graph")
    picture = CHECK.picture(CHECK, whole)
    assert picture.png.startswith(b"\x89PNG")
    late = next(wrong for wrong in WRONG if wrong.name == "frees_nothing")
    assert CHECK.picture(CHECK, late.answer(whole)).words == picture.words
    early = next(wrong for wrong in WRONG if wrong.name == "frees_before_the_node")
    with pytest.raises(ValueError, match="was freed in step"):
        CHECK.picture(CHECK, early.answer(whole))


# ---- the machine


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([*RUNS[:1], ("free", "linear"), *RUNS[1:]], "early"),
        ([*RUNS[:3], ("free", "linear"), RUNS[3]], "early"),  # through its view
        ([RUNS[1]], "order"),
        ([RUNS[0], RUNS[0]], "again"),
        ([RUNS[0], ("free", "linear"), ("free", "linear")], "again"),
        ([("free", "linear")], "again"),
        ([("free", "batch")], "given"),
        ([("run", "batch")], "given"),
        ([*RUNS[:3], ("free", "flat")], "view"),
        ([("run", "other")], "unknown"),
    ],
)
def test_the_first_step_that_cannot_be_done_is_named(steps, kind):
    wrong = execute(SMALL, steps)
    assert isinstance(wrong, Wrong)
    assert wrong.kind == kind
    assert (
        f"step {len(steps) - 1 - (kind == 'early' and steps[1][0] == 'free') * 2}" in wrong.message
    )


def test_live_bytes_are_counted_while_a_node_runs():
    done = execute(SMALL, [*RUNS, ("free", "relu"), ("free", "linear")])
    assert done == Executed((800, 1600, 1600, 1604), frozenset({"loss"}), tuple(NAMES))
    assert done.peak == 1604


def test_no_plan_has_fewer_live_bytes_than_the_least():
    """Every way to put the frees between the runs of small graphs."""
    draw = random.Random(5)
    for _ in range(40):
        graph = _any_graph(draw)
        names = [n["name"] for n in graph["nodes"] if n["name"] in needed(graph)]
        least = least_live(graph)
        found = []
        for _ in range(60):
            alive_until = {
                name: draw.randint(place, len(names))
                for place, name in enumerate(names)
                if memory_of(graph)[name] == name
            }
            steps = []
            for place, name in enumerate(names):
                steps.append(("run", name))
                steps += [("free", one) for one, until in alive_until.items() if until == place]
            done = execute(graph, steps)
            if isinstance(done, Executed) and set(graph["outputs"]) <= done.left:
                found.append(done)
                assert all(seen >= due for seen, due in zip(done.live, least, strict=True))


def _any_graph(draw: random.Random):
    nodes = []
    for number in range(6):
        pool = ["batch", *(node["name"] for node in nodes)]
        view = draw.random() < 0.2
        names = draw.choices(pool, k=1 if view else draw.randint(1, 2))
        nbytes = 0 if view else draw.randint(1, 9)
        nodes.append({"name": f"n{number}", "inputs": names, "bytes": nbytes, "view": view})
    while nodes[-1]["view"]:
        nodes[-1] = {**nodes[-1], "view": False, "bytes": 3}
    return {"nodes": nodes, "given": ["batch"], "outputs": [nodes[-1]["name"]]}


@pytest.mark.skipif(
    torch.__version__.partition("+")[0] != recorded_by(),
    reason=f"the network was traced by PyTorch {recorded_by()}",
)
def test_the_recorded_network_is_that_of_today():
    assert _record_network.tensors(_record_network.traced(6)) == network(6)


# ---- the trees


def test_trees_are_trees_recorded_badly():
    for seed in range(40):
        for graph in trees(seed):
            below = branches(graph)
            read = [name for names in below.values() for name in names]
            (root,) = graph["outputs"]
            assert sorted([*read, root]) == sorted(below)
            names = [node["name"] for node in graph["nodes"]]
            assert all(names.index(one) < names.index(n) for n in below for one in below[n])
            assert len(names) <= 100
            least, order = peak_and_order(graph)
            assert max(least_live(graph, order)) == least < max(least_live(graph))
            assert [peak_of(graph, one) for one in (order, names)] == [
                max(least_live(graph, one)) for one in (order, names)
            ]
            assert finishes_branches(graph, order)
            assert not finishes_branches(graph, names)


def test_the_least_of_all_branch_orders_is_that_of_the_rule():
    """Largest peak minus what is left first: found by trying all, and by the exchange argument."""

    def rule(found):
        return sorted(range(len(found)), key=lambda n: found[n][1] - found[n][0])

    for seed in range(60):
        graph = made(random.Random(seed), 4)
        assert peak_and_order(graph, rule)[0] == peak_and_order(graph)[0]


def test_no_other_rule_does():
    for seed in SEEDS:
        for graph in trees(seed):
            least, _ = peak_and_order(graph)
            assert all(peak_and_order(graph, rule)[0] > least for rule in RIVALS.values())
