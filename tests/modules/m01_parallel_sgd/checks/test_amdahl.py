"""Exercise amdahl: the laws agree with each other, and each misconception meets its own hint."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m01_parallel_sgd.checks import amdahl as exercise
from hpml.modules.m01_parallel_sgd.checks.instructors import amdahl as laws
from hpml.predict.amdahl import Amdahl

SEED = 3
CLAIMS = dict(zip(exercise.NAMES, exercise.CHECK.claims, strict=True))

fractions = st.floats(0.0, 1.0)
ranks = st.integers(2, 10_000)


@pytest.fixture
def values(solution):
    """`values(seed)` is what the right answer brings back."""
    answer = types.ModuleType("answer")
    exec("#" + solution("amdahl"), answer.__dict__)
    return lambda seed: exercise.drive(answer, laws.inputs(seed, 1)[0])


@given(fractions, ranks)
def test_a_problem_that_stays_is_never_faster_than_its_serial_part(serial, ranks):
    speedup = laws.amdahl(serial, ranks)
    assert 1 - 1e-9 <= speedup <= ranks * (1 + 1e-9)
    assert speedup * serial <= 1 + 1e-9
    assert laws.amdahl(0.0, ranks) == pytest.approx(ranks)
    assert laws.amdahl(1.0, ranks) == 1


def test_the_texts_thousand_ranks_are_as_fast_as_the_text_says():
    assert f"{laws.amdahl(0.05, 1000):.1f}" == "19.6"
    assert laws.amdahl(0.05, 10**9) < 20
    assert laws.gustafson(0.05, 1000) == pytest.approx(950.05)


@given(fractions, ranks)
def test_the_lectures_model_is_the_same_law(serial, ranks):
    model = Amdahl(serial, 1 - serial)
    assert laws.amdahl(serial, ranks) == pytest.approx(model.seconds(1) / model.seconds(ranks))


@given(fractions, ranks)
def test_both_laws_are_one_where_the_fractions_mean_the_same_run(serial, ranks):
    """A fraction s of one rank's time is s / (s + (1-s)/p) of the time of p ranks."""
    of_all = serial * laws.amdahl(serial, ranks)
    assert laws.gustafson(of_all, ranks) == pytest.approx(laws.amdahl(serial, ranks))


@given(fractions, ranks)
def test_the_estimate_undoes_the_law(serial, ranks):
    speedup = laws.amdahl(serial, ranks)
    assert laws.karp_flatt(speedup, ranks) == pytest.approx(serial, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("name", exercise.NAMES)
def test_every_mistake_is_found_on_every_draw_with_its_own_hint(hand_made, values, seed, name):
    right = values(seed)
    calls = laws.inputs(seed, 1)[0][name]
    for hint, formula in laws.MISTAKES[name]:
        wrong = right | {name: [formula(*call) for call in calls]}
        run = hand_made(exercise.CHECK, [wrong], seed=seed)
        found = {n: claim.judge(run) for n, claim in CLAIMS.items()}
        assert found.pop(name).hint == hint
        assert set(found.values()) == {None}


@pytest.mark.parametrize("name", exercise.NAMES)
@pytest.mark.parametrize("value", [None, "3", True, [1.0], pytest.param(10**4000, id="huge")])
def test_what_is_no_number_is_told_so(hand_made, values, name, value):
    wrong = values(SEED)
    wrong[name][0] = value
    problem = CLAIMS[name].judge(hand_made(exercise.CHECK, [wrong], seed=SEED))
    assert problem.hint == "types"
    assert "not a float" in problem.message


def test_nan_is_no_speedup(hand_made, values):
    wrong = values(SEED)
    wrong["strong_speedup"][0] = float("nan")
    run = hand_made(exercise.CHECK, [wrong], seed=SEED)
    assert CLAIMS["strong_speedup"].judge(run).hint == "start"
