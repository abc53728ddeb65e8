"""Exercise lr_scaling: three values fix the warm-up, and each misconception meets its own hint."""

import itertools
import math
import types
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m01_parallel_sgd.checks import lr_scaling as exercise
from hpml.modules.m01_parallel_sgd.checks._lr_setting import Setting, setting_of
from hpml.modules.m01_parallel_sgd.checks.instructors import lr_scaling as plays
from hpml.train import learning_rate

SEED = 3
NAMES = ("linear", "sqrt", "begins", "rises", "stays")
JUDGES = dict(zip(NAMES, [claim.judge for claim in exercise.CHECK.claims], strict=True))

settings = st.builds(
    Setting,
    base_rate=st.floats(1e-4, 1.0),
    batch_per_rank=st.integers(1, 512),
    ranks=st.integers(1, 1024),
    rule=st.sampled_from(plays.RULES),
    warm_up_steps=st.integers(0, 40),
)


@pytest.fixture
def values(solution):
    """`values(seed)` is what the right answer brings back."""
    answer = types.ModuleType("answer")
    exec("#" + solution("lr_scaling"), answer.__dict__)
    return lambda seed: exercise.drive(answer, plays.inputs(seed, 1)[0])


def problems(run):
    judged = {name: judge_it(run) for name, judge_it in JUDGES.items()}
    return {name: problem.hint for name, problem in judged.items() if problem is not None}


@given(settings)
def test_the_warm_up_goes_by_equal_steps_from_one_ranks_rate_to_the_scaled_one(of):
    rates = [plays.gradual(step, of) for step in range(of.warm_up_steps + 3)]
    assert rates[of.warm_up_steps :] == [plays.scaled(of)] * 3
    if of.warm_up_steps:
        assert rates[0] == of.base_rate
    added = [after - before for before, after in itertools.pairwise(rates)]
    equal = pytest.approx(added[0] if of.warm_up_steps else 0.0, rel=1e-6, abs=1e-12)
    assert all(step == equal for step in added[: of.warm_up_steps])


@given(settings)
def test_rules_know_the_growth_of_the_batch_and_not_its_size(of):
    assert plays.scaled(of) == plays.scaled(replace(of, batch_per_rank=2 * of.batch_per_rank))
    four = replace(of, ranks=4 * of.ranks)
    times = 4 if of.rule == "linear" else 2
    assert plays.scaled(four) == pytest.approx(times * plays.scaled(of))


@pytest.mark.parametrize("batch", [32, 64])
@pytest.mark.parametrize(("rule", "rate"), [("linear", "0.80"), ("sqrt", "0.28")])
def test_the_texts_eight_ranks_have_the_rates_of_the_text(batch, rule, rate):
    assert f"{plays.scaled(Setting(0.1, batch, 8, rule, 0)):.2f}" == rate


@pytest.mark.parametrize("seed", range(10))
def test_no_batch_occurs_twice_and_the_shortest_warm_ups_always(seed):
    drawn = settings_of(seed)
    assert len({of.batch_per_rank for of in drawn}) == len(drawn)
    assert {0, 1} <= {of.warm_up_steps for of in drawn}


@given(settings)
def test_the_training_script_scales_by_the_same_rules(of):
    times = learning_rate.RULES[of.rule](of.ranks)
    assert plays.scaled(of) == pytest.approx(times * of.base_rate)


def settings_of(seed):
    return [setting_of(of) for of in plays.inputs(seed, 1)[0]]


@pytest.mark.parametrize("seed", range(30))
def test_every_wrong_scale_is_found_on_every_draw_with_its_own_hint(hand_made, values, seed):
    for hint, formula in plays.SCALED.items():
        wrong = values(seed)
        for of, row in zip(settings_of(seed), wrong, strict=True):
            row["scaled"] = formula(of)
        found = problems(hand_made(exercise.CHECK, [wrong], seed=seed))
        rules = ["sqrt"] if hint == "linear_always" else plays.RULES
        assert found == dict.fromkeys(rules, hint)


@pytest.mark.parametrize("hint", plays.SCALED)
def test_a_right_warm_up_to_a_wrong_rate_has_the_hint_of_that_rate(hand_made, values, hint):
    wrong = values(SEED)
    for drawn, row in zip(plays.inputs(SEED, 1)[0], wrong, strict=True):
        of = setting_of(drawn)
        row["scaled"] = plays.SCALED[hint](of)
        row["at"] = [
            plays._ramp(of.base_rate, row["scaled"], step, of.warm_up_steps)
            for step in drawn["steps"]
        ]
    found = problems(hand_made(exercise.CHECK, [wrong], seed=SEED))
    assert set(found.values()) == {hint}
    assert "begins" not in found


@pytest.mark.parametrize("seed", range(30))
def test_every_wrong_schedule_is_found_on_every_draw_with_its_own_hint(hand_made, values, seed):
    for hint, formula in plays.AT.items():
        wrong = values(seed)
        for drawn, row in zip(plays.inputs(seed, 1)[0], wrong, strict=True):
            row["at"] = [formula(step, setting_of(drawn)) for step in drawn["steps"]]
        found = problems(hand_made(exercise.CHECK, [wrong], seed=seed))
        assert found
        assert set(found.values()) == {hint}


def test_who_counts_calls_instead_of_reading_the_step_is_found(hand_made, values):
    wrong = values(SEED)
    for of, row in zip(settings_of(SEED), wrong, strict=True):
        row["at"] = [plays.gradual(call, of) for call in range(len(row["at"]))]
    assert set(problems(hand_made(exercise.CHECK, [wrong], seed=SEED)).values()) == {"ramp"}


@pytest.mark.parametrize("value", [None, "0.1", True, [0.1], pytest.param(-(10**4000), id="huge")])
def test_what_is_no_number_is_told_so(hand_made, values, value):
    wrong = values(SEED)
    for row in wrong:
        row["scaled"], row["at"] = value, [value] * len(row["at"])
    run = hand_made(exercise.CHECK, [wrong], seed=SEED)
    assert problems(run) == dict.fromkeys(NAMES, "types")


def test_a_rate_of_one_rule_alone_is_told_so_too(hand_made, values):
    wrong = values(SEED)
    for of, row in zip(settings_of(SEED), wrong, strict=True):
        row["scaled"] = None if of.rule == "linear" else 0.0
        row["at"] = [0.0] * len(row["at"])
    found = problems(hand_made(exercise.CHECK, [wrong], seed=SEED))
    assert found == {**dict.fromkeys(NAMES, "ramp"), "linear": "types", "sqrt": "start"}


def test_a_number_beyond_floats_at_one_step_keeps_no_other_from_its_hint(hand_made, values):
    wrong = values(SEED)
    of, row = exercise.settings_of(hand_made(exercise.CHECK, [wrong], seed=SEED))[0], wrong[0]
    steps = plays.inputs(SEED, 1)[0][0]["steps"]
    row["at"][steps.index(0)], row["at"][steps.index(of.warm_up_steps)] = 1.0, 10**400
    found = problems(hand_made(exercise.CHECK, [wrong], seed=SEED))
    assert set(found.values()) == {"ramp", "types"}


def test_one_wrong_step_among_many_is_found(hand_made, values):
    at = plays.inputs(SEED, 1)[0][1]["steps"].index(2)
    wrong = values(SEED)
    wrong[1]["at"][at] = math.nextafter(wrong[1]["at"][at], 1.0) * 1.001
    assert problems(hand_made(exercise.CHECK, [wrong], seed=SEED)) == {"rises": "ramp"}
