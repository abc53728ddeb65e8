"""Exercise mesh_layout: each misconception meets its own hint, on every draw."""

import types

import pytest

from hpml.modules.m07_hybrid_parallelism.checks import mesh_layout as exercise
from hpml.modules.m07_hybrid_parallelism.checks.instructors import mesh_layout as plays
from hpml.modules.m07_hybrid_parallelism.lecture import layouts

SEED = 3
SLICES, FORWARD, GRADIENTS, ILLEGAL = (claim.judge for claim in exercise.CHECK.claims)


@pytest.fixture
def values(solution):
    """`values(seed)` is what the right answer brings back."""
    answer = types.ModuleType("answer")
    exec("#" + solution("mesh_layout"), answer.__dict__)
    return lambda seed: exercise.drive(answer, plays.inputs(seed, 1)[0])


def problems(run):
    return [claim.judge(run) for claim in exercise.CHECK.claims]


@pytest.mark.parametrize("seed", range(8))
def test_every_draw_has_legal_and_illegal_products_and_sums_are_those_of_the_lecture(seed):
    given = plays.inputs(seed, 1)
    right, reasons = plays.expect(given, 1)["right"], []
    for case, kind, due in zip(given[0]["cases"], given[0]["kinds"], right, strict=True):
        tensors = {str(n): one for n, one in enumerate([*case["inputs"], case["output"]])}
        asked = (" ".join(tensors), tensors, case["mesh"], case["layout"])
        if kind == "legal":
            sums = [(list(one.over), one.nbytes) for one in layouts.all_reduces(*asked).values()]
            assert sums == due["forward"] + due["gradients"]
        else:
            with pytest.raises(layouts.IllegalLayout):
                layouts.all_reduces(*asked)
            reasons.append(due["hint"])
    assert set(reasons) == {"same_tensor", "divide", "operation"}


@pytest.mark.parametrize("seed", range(8))
def test_every_wrong_slice_is_found_with_its_hint(hand_made, values, seed):
    right, given = values(seed), plays.inputs(seed, 1)[0]
    for hint, wrong in plays.SLICE_MISTAKES.items():
        changed = [
            said | {"slices": plays.all_slices(case, wrong)} if kind == "legal" else said
            for case, kind, said in zip(given["cases"], given["kinds"], right, strict=True)
        ]
        run = hand_made(exercise.CHECK, [changed], seed=seed)
        assert SLICES(run).hint == hint
        assert FORWARD(run) is GRADIENTS(run) is ILLEGAL(run) is None


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mistake", plays.SUM_MISTAKES)
def test_every_wrong_sum_is_found_with_its_hint(hand_made, values, seed, mistake):
    given = plays.inputs(seed, 1)[0]
    changed = []
    for case, kind, said in zip(given["cases"], given["kinds"], values(seed), strict=True):
        if kind == "legal":
            (forward,) = plays.forward(case, mistake)
            said = said | {"forward": forward, "gradients": plays.gradients(case, mistake)}
        changed.append(said)
    run = hand_made(exercise.CHECK, [changed], seed=seed)
    assert FORWARD(run).hint == mistake
    assert GRADIENTS(run).hint == mistake
    assert SLICES(run) is None


def test_who_refuses_everything_has_no_points(hand_made, values):
    refused = [
        {
            "slices": [[exercise.REFUSED] * len(got) for got in said["slices"]],
            "forward": exercise.REFUSED,
            "gradients": exercise.REFUSED,
        }
        for said in values(SEED)
    ]
    run = hand_made(exercise.CHECK, [refused], seed=SEED)
    assert [problem.hint for problem in problems(run)] == ["too_strict"] * 4


@pytest.mark.parametrize("value", [None, 3, {}, ["rows"], [["rows"], 4.0], [[1], 4], [["a"], True]])
def test_what_is_no_sum_is_said_so(hand_made, values, value):
    changed = [said | {"forward": value} for said in values(SEED)]
    assert FORWARD(hand_made(exercise.CHECK, [changed], seed=SEED)).hint == "sum_types"


def test_no_message_has_the_expected_value(hand_made, values):
    changed = [said | {"forward": [["nowhere"], 1]} for said in values(SEED)]
    run = hand_made(exercise.CHECK, [changed], seed=SEED)
    problem = FORWARD(run)
    assert problem.expected
    assert problem.expected not in problem.message


def test_the_text_has_the_right_numbers(solution):
    answer = types.ModuleType("answer")
    exec("#" + solution("mesh_layout"), answer.__dict__)
    mesh, tensor = {"rows": 2, "columns": 3}, {"batch": 12, "hidden": 24}
    held = [answer.slice_of(tensor, mesh, {"batch": "rows"}, rank) for rank in range(6)]
    assert held == [{"batch": half, "hidden": (0, 24)} for half in ((0, 6), (6, 12)) for _ in "123"]
    both = {"batch": "rows", "hidden": "columns"}
    places = {1: ((0, 6), (8, 16)), 3: ((6, 12), (0, 8))}  # row 0, column 1; row 1, column 0
    for rank, bounds in places.items():
        assert tuple(answer.slice_of(tensor, mesh, both, rank).values()) == bounds
    x, w, output = {"batch": 12, "io": 4}, {"io": 4, "hidden": 24}, tensor
    sums = {
        name: [
            bool(answer.forward_sum([x, w], output, {"all": 2}, {name: "all"})[0]),
            *(bool(s[0]) for s in answer.gradient_sums([x, w], output, {"all": 2}, {name: "all"})),
        ]
        for name in ("batch", "io", "hidden")
    }
    # The product's, that of the gradient of x, that of the gradient of w
    assert sums == {
        "batch": [False, False, True],
        "io": [True, False, False],
        "hidden": [False, True, False],
    }
