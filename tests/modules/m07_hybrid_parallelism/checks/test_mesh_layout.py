"""Exercise mesh_layout: each misconception meets its own hint, on every draw."""

import types

import pytest

from hpml.modules.m07_hybrid_parallelism.checks import mesh_layout as exercise
from hpml.modules.m07_hybrid_parallelism.lecture import layouts

SEED = 3
SLICES, FORWARD, GRADIENTS, ILLEGAL = (claim.judge for claim in exercise.CHECK.claims)


@pytest.fixture
def values(solution):
    """`values(seed)` is what the right answer brings back."""
    answer = types.ModuleType("answer")
    exec("#" + solution("mesh_layout"), answer.__dict__)
    return lambda seed: exercise.drive(answer, exercise.inputs(seed, 1)[0])


def problems(run):
    return [claim.judge(run) for claim in exercise.CHECK.claims]


@pytest.mark.parametrize("seed", range(8))
def test_every_draw_has_legal_and_illegal_products_with_their_reasons(seed):
    given = exercise.inputs(seed, 1)[0]
    for case, kind in zip(given["cases"], given["kinds"], strict=True):
        if kind == "legal":
            exercise.right_sums(case)
        else:
            with pytest.raises(layouts.IllegalLayout):
                exercise.right_sums(case)
    reasons = [
        exercise.why_illegal(case)
        for case, kind in zip(given["cases"], given["kinds"], strict=True)
        if kind == "illegal"
    ]
    assert set(reasons) == {"same_tensor", "divide", "operation"}


@pytest.mark.parametrize("seed", range(8))
def test_every_wrong_slice_is_found_with_its_hint(hand_made, values, seed):
    right = values(seed)
    for hint, wrong in exercise.SLICE_MISTAKES.items():
        given = exercise.inputs(seed, 1)[0]
        changed = []
        for case, kind, said in zip(given["cases"], given["kinds"], right, strict=True):
            if kind == "legal":
                tensors = [*case["inputs"], case["output"]]
                slices = [
                    [wrong(t, case["mesh"], case["layout"], rank) for rank in range(len(got))]
                    for t, got in zip(tensors, said["slices"], strict=True)
                ]
                said = said | {"slices": slices}
            changed.append(said)
        run = hand_made(exercise.CHECK, [changed], seed=seed)
        assert SLICES(run).hint == hint
        assert FORWARD(run) is GRADIENTS(run) is ILLEGAL(run) is None


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mistake", exercise.SUM_MISTAKES)
def test_every_wrong_sum_is_found_with_its_hint(hand_made, values, seed, mistake):
    def listed(found):
        return [sorted(found[0]), found[1]]

    given = exercise.inputs(seed, 1)[0]
    changed = []
    for case, kind, said in zip(given["cases"], given["kinds"], values(seed), strict=True):
        if kind == "legal":
            first, *rest = exercise.operations(case)
            forward = listed(exercise.sum_of(case, *first[1:], mistake))
            back = [listed(exercise.sum_of(case, *one[1:], mistake)) for one in rest]
            said = said | {"forward": forward, "gradients": back}
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
