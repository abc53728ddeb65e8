"""The check of autodiff: what its judges make of right and wrong gradients."""

import copy
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from hpml.answer.enforce import NotAllowed
from hpml.checks.contract import Run
from hpml.modules.m04_frameworks.checks import _recorded_graphs as made
from hpml.modules.m04_frameworks.checks._gradient_faults import wrong_gradient
from hpml.modules.m04_frameworks.checks._graph_gradients import gradients
from hpml.modules.m04_frameworks.checks._walk_back import (
    OF_ZIP,
    RAISED_LIMIT,
    TooManyVisits,
    address,
    count_visits,
    drive,
)
from hpml.modules.m04_frameworks.checks.autodiff import CHECK, expect, inputs
from hpml.ranks.evidence import Evidence, RankEvidence

ONCE, SHARED, BROADCAST, BRANCHES, EVERYTHING, DEEP = (claim.judge for claim in CHECK.claims)
GIVEN = inputs(5, 1)
EXPECTED = expect(GIVEN, 1)


def right(graph, truth):
    """What a right answer hands over for one graph, each gradient in memory of its own."""
    grads = [copy.deepcopy(truth.expected[place]) for place in graph["kept"]]
    return {"grads": grads, "memory": [None if x is None else i for i, x in enumerate(grads)]}


def a_run(change=lambda kind, found: found):
    """A run of an answer that is right but for what `change` makes of a graph's value."""
    value = [
        change(graph["kind"], right(graph, truth))
        for graph, truth in zip(GIVEN[0], EXPECTED, strict=True)
    ]
    evidence = Evidence(1, (RankEvidence(0, "returned", value=value),), 0.1)
    return Run(1, 5, GIVEN, EXPECTED, evidence, {})


def only(kind, new):
    return lambda seen, found: new if seen == kind else found


def a_graph(build):
    """A graph made by `build(drawing)`, and its gradients."""
    drawing = made.Drawing(random.Random(3))
    build(drawing)
    graph = drawing.graph("everything")
    return graph, gradients(graph)


def judged(graph, truth, **changed):
    """The hint for a value in which the gradients at these places are others."""
    found = right(graph, truth)
    for place, grad in changed.items():
        found["grads"][int(place[1:])] = grad
    problem = wrong_gradient(graph, truth, found["grads"], found["memory"])
    return problem and problem.hint


def test_a_right_answer_has_no_problem():
    assert [claim.judge(a_run()) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_for_every_seed():
    first, second = (inputs(seed, 1)[0] for seed in (1, 2))
    leaves = [graph["nodes"][0][3].tolist() for graph in (*first, *second)]
    same = [i for i in range(len(first)) if leaves[i] == leaves[i + len(first)]]
    assert [repr(first[i]) for i in same] == [repr(made.in_the_text())]


@pytest.mark.parametrize(
    ("kind", "judge"),
    [("once", ONCE), ("shared", SHARED), ("broadcast", BROADCAST), ("branches", BRANCHES)],
)
def test_a_claim_is_about_graphs_of_its_kind(kind, judge):
    run = a_run(only(kind, {"raised": "TypeError", "line": 3}))
    others = {ONCE, SHARED, BROADCAST, BRANCHES, EVERYTHING, DEEP} - {judge}
    assert judge(run).hint == "raised"
    assert "TypeError in line 3" in judge(run).message
    assert all(other(run) is None for other in others)


@pytest.mark.parametrize(
    ("kind", "error", "hint"),
    [
        ("once", "ValueError", "fit"),
        ("shared", "ValueError", "again"),
        ("broadcast", "ValueError", "shape"),
        ("everything", "ValueError", "raised"),
        ("once", OF_ZIP, "tuple"),
        ("chain", RAISED_LIMIT, "recursion"),
    ],
)
def test_what_ends_a_walk_has_a_hint(kind, error, hint):
    run = a_run(only(kind, {"raised": error, "line": 3}))
    problems = [problem for claim in CHECK.claims if (problem := claim.judge(run))]
    assert [problem.hint for problem in problems] == [hint]


@pytest.mark.parametrize("value", [None, 3, [], {"grads": None}, {"grads": [1], "memory": 0}])
def test_what_has_another_form(value):
    assert ONCE(a_run(only("once", value))).hint == "form"


def test_an_error_in_the_product_is_about_the_product():
    found = {"raised": "ValueError", "line": 3, "function": "matmul_vjp"}
    assert ONCE(a_run(only("once", found))).hint == "matmul"
    assert ONCE(a_run(only("once", found | {"function": "relu_vjp"}))).hint == "fit"
    assert ONCE(a_run(only("once", found | {"function": "backward"}))).hint == "raised"


def test_what_the_memory_is_cannot_stop_the_judge():
    def change(kind, found):
        odd = [np.ones(3), [1], "a", float("nan")] * len(found["grads"])
        grads = [None if x is None else x + 1 for x in found["grads"]]
        return {"grads": grads, "memory": odd[: len(grads)]}

    run = a_run(change)
    assert all(claim.judge(run) is not None for claim in CHECK.claims)


def test_the_name_of_an_error_is_not_taken_from_the_answer():
    run = a_run(only("once", {"raised": "\x1b[2J15 of 15 points", "line": "\x1b"}))
    assert "an error" in ONCE(run).message
    assert "\x1b" not in ONCE(run).message


def test_an_error_is_reported_with_its_text():
    found = {"raised": "KeyError", "text": "'floor'\x1b", "line": 65}
    message = BRANCHES(a_run(only("branches", found))).message
    assert message.endswith("backward raised KeyError in line 65 of your answer: 'floor'\ufffd")


def test_the_example_of_the_text_is_played():
    graph = made.in_the_text()
    assert repr(graph) in map(repr, GIVEN[0])
    x, b, y, z, _ = (grad.tolist() for grad in gradients(graph).expected)
    assert (z, y, x, b) == ([1, 1], [1, 1], [4, 4], 3)


@pytest.mark.parametrize("factor", [1 + 1e-9, 1 - 1e-9])
def test_a_difference_in_the_tenth_digit_is_too_much(factor):
    def change(kind, found):
        grads = [None if x is None else x * factor for x in found["grads"]]
        return found | {"grads": grads}

    run = a_run(change)
    assert ONCE(run).hint == SHARED(run).hint == "digits"
    assert DEEP(run) is not None


def test_rounding_is_not():
    def change(kind, found):
        grads = [None if x is None else x * (1 + 4e-16) for x in found["grads"]]
        return found | {"grads": grads}

    assert [claim.judge(a_run(change)) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_what_no_usual_mistake_explains_is_a_chain():
    def build(g):
        x = g.leaf(2)
        g.loss_of([g.op("add", x, g.leaf(2)), g.op("tanh", x)])

    graph, truth = a_graph(build)
    assert judged(graph, truth, n0=7 * truth.uses[0][0].adds) == "chain"
    # Another node's gradient in memory of its own is not added in place
    assert judged(graph, truth, n1=truth.expected[0]) == "chain"
    assert judged(graph, truth, n0="none") == "form"


def test_the_walk_may_begin_with_a_plain_one():
    graph, truth = a_graph(lambda g: g.loss_of([g.leaf(2)]))
    assert judged(graph, truth, **{f"n{len(graph['nodes']) - 1}": 1.0}) is None


@pytest.mark.parametrize("seed", range(2))
def test_gradients_by_hand_are_those_of_torch(seed):
    for graph in made.graphs(seed):
        truth = gradients(graph)
        for place in graph["kept"]:
            uses, due = truth.uses[place], truth.expected[place]
            if uses:
                np.testing.assert_allclose(sum(u.adds for u in uses), due, rtol=1e-9, atol=1e-11)
            elif place < len(graph["nodes"]) - 1:
                assert due is None


@pytest.mark.parametrize("seed", range(8))
def test_graphs_have_what_they_are_for(seed):
    by_kind = {kind: [] for kind in made.KINDS}
    for graph in made.graphs(seed):
        truth = None if graph["kind"] == "chain" else gradients(graph)
        by_kind[graph["kind"]].append((graph, truth))
    for _, truth in by_kind["once"] + by_kind["broadcast"]:
        assert all(len(uses) <= 1 for uses in truth.uses)
    (leaves, uses_of_leaves), *shared = by_kind["shared"]
    for (operation, *_), uses in zip(leaves["nodes"], uses_of_leaves.uses, strict=True):
        assert operation == "leaf" or len(uses) <= 1
    assert max(map(len, uses_of_leaves.uses)) > 2
    for graph, truth in shared:
        assert max(map(len, truth.uses)) > 2
        twice = [inputs for _, inputs, _, _ in graph["nodes"] if len(set(inputs)) < len(inputs)]
        assert twice.count(twice[0]) > 1  # near the loss, and far from it
    for graph, truth in by_kind["branches"]:
        operations = {node[0] for node in graph["nodes"]}
        assert {"floor", "detach"} < operations
        dead = [x for x in truth.expected if x is not None and not x.any()]
        assert dead
    for graph, _ in by_kind["once"]:
        relus = [node[1][0] for node in graph["nodes"] if node[0] == "relu"]
        values = graph["nodes"][relus[0]][3]
        assert (values == 0).any()
        assert (values > 0).any()
    [(chain, _)] = by_kind["chain"]
    assert len(chain["nodes"]) > made.DEPTH


def a_node(op, inputs, value, requires_grad):
    return SimpleNamespace(
        op=op, inputs=inputs, value=value, requires_grad=requires_grad, grad=None
    )


def test_one_error_leaves_the_other_graphs():
    def backward(loss):
        if loss.value.any():
            raise ValueError("no")
        loss.grad = np.ones(())

    zero = made.Drawing(random.Random(1))
    zero.op("sum", zero.given([0.0, 0.0], (2,)))
    answer = SimpleNamespace(Node=a_node, backward=backward)
    first, second = drive(answer, [zero.graph("once"), GIVEN[0][0]])
    assert first["grads"][-1] == 1
    assert second["raised"] == "ValueError"
    assert second["line"] > 0
    assert second["text"] == "no"
    assert second["function"] == "backward"
    with pytest.raises(ValueError, match="no"):
        drive(answer, [GIVEN[0][0]])


def test_visits_are_counted_and_not_timed():
    def endless():
        count_visits()
        while True:
            len(())

    with pytest.raises(TooManyVisits):
        endless()


def test_the_recursion_limit_stays_also_for_a_while():
    def backward(loss):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(10 * limit)
        loss.grad = np.ones(())
        sys.setrecursionlimit(limit)

    chain = next(graph for graph in GIVEN[0] if graph["kind"] == "chain")
    assert drive(SimpleNamespace(Node=a_node, backward=backward), [chain]) == [
        {"raised": RAISED_LIMIT}
    ]


def test_numbers_that_are_no_arrays_do_not_share_memory():
    assert address(np.ones(2)) is not None
    assert address(np.float64(1)) is None


def test_graphs_of_all_kinds_are_left_to_the_parts_that_are_wrong():
    def change(kind, found):
        wrong = kind in ("once", "everything")
        return (
            found | {"grads": [None if x is None else 3 * x for x in found["grads"]]}
            if (wrong)
            else found
        )

    assert EVERYTHING(a_run(change)).hint == "parts"
    assert EVERYTHING(a_run(only("everything", {"raised": "KeyError"}))).hint == "raised"


@pytest.mark.parametrize("recording", [True, False])
def test_what_torch_records_for_its_own_walk_is_refused(recording):
    import torch

    def backward(loss):
        x = torch.tensor(loss.value, requires_grad=recording)
        loss.grad = (x * x).detach().numpy()

    answer = SimpleNamespace(Node=a_node, backward=backward)
    graphs = [graph | {"kept": [len(graph["nodes"]) - 1]} for graph in GIVEN[0][:2]]
    if not recording:
        assert [list(each) for each in drive(answer, graphs)] == [["grads", "memory"]] * 2
        return
    with pytest.raises(NotAllowed, match="autograd record"):
        drive(answer, graphs)
