"""The check of fit_alpha_beta: planted networks are as the text has them, judges name mistakes."""

import statistics

import pytest

from hpml.modules.m08_case_studies.checks import _fit_cases as cases
from hpml.modules.m08_case_studies.checks._fit_cases import (
    NETWORKS,
    NOISY,
    QUIET,
    SHARED,
    SIZES,
    half_cases,
    networks,
    ring_seconds,
)
from hpml.modules.m08_case_studies.checks._fit_mistakes import OF_BETA
from hpml.modules.m08_case_studies.checks.fit_alpha_beta import TOGETHER, TOLERANCE, inputs
from hpml.predict.collectives import Cost, all_reduce_seconds

SEEDS = range(5)


def right(seed: int) -> dict:
    return {
        "fitted": [(one.alpha, one.beta) for one in networks(seed)],
        "half": [ranks * alpha / beta for alpha, beta, ranks in half_cases(seed)],
    }


def test_inputs_are_fresh_for_every_seed():
    assert inputs(1, 1) != inputs(2, 1)
    assert half_cases(1) != half_cases(2)


def test_the_ring_is_that_of_the_courses_model():
    for ranks, nbytes in ((2, 64), (5, 1e6), (16, 1e9)):
        model = all_reduce_seconds("ring", nbytes, ranks, Cost(3e-6, 2e-9))
        assert ring_seconds(nbytes, ranks, 3e-6, 2e-9) == pytest.approx(model, rel=1e-12)


def test_the_example_of_the_text(right_answer):
    answer: dict = {}
    exec(right_answer, answer)
    alpha, beta = answer["fit_alpha_beta"]([64, 10_000], [[10.4e-6] * 10, [25.3e-6] * 10], 4)
    assert (alpha, beta) == (pytest.approx(1.72e-6, rel=5e-3), pytest.approx(1e-9, rel=1e-3))
    assert answer["half_size"](alpha, beta, 4) == pytest.approx(6.9e3, rel=5e-3)


def test_networks_are_as_the_text_says():
    for seed in SEEDS:
        for one in networks(seed):
            assert 2 <= one.ranks <= 16
            assert 1e-6 <= one.alpha <= 1e-3
            assert 1e8 <= 8 / one.beta <= 4e11
            assert 16e3 <= one.ranks * one.alpha / one.beta <= 4e6
            assert len(one.disturbed) == (8 if one.kind == SHARED else 0)
        assert {kind: [n.kind for n in networks(seed)].count(kind) for kind in NETWORKS} == NETWORKS
    assert (len(SIZES), SIZES[0], SIZES[-1]) == (49, 64, 2**30)
    assert list(SIZES) == sorted(set(SIZES))


def test_the_quickest_repetition_is_off_by_some_percent_and_disturbed_sizes_by_far_more():
    errors = []
    for one in (one for seed in SEEDS for one in networks(seed)):
        for place, (nbytes, taken) in enumerate(zip(SIZES, one.seconds, strict=True)):
            ratio = min(taken) / ring_seconds(nbytes, one.ranks, one.alpha, one.beta)
            if place in one.disturbed:
                assert 1.25 < ratio < 11
            elif one.kind == QUIET:
                assert abs(ratio - 1) < 1e-4
            else:
                assert abs(ratio - 1) < 0.15
                errors += [ratio - 1] * (one.kind == NOISY)
    assert abs(statistics.fmean(errors)) < 0.005
    assert statistics.stdev(errors) == pytest.approx(0.027, rel=0.1)


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_tolerance_holds_for_each_of_both(problems, kind):
    claim = list(NETWORKS).index(kind) + (kind != QUIET)  # half_size is the second
    for share, expected in ((0.9, False), (1.1, True)):
        for place in (0, 1):
            value = right(1)
            number = [one.kind for one in networks(1)].index(kind)
            pair = list(value["fitted"][number])
            pair[place] *= 1 + share * TOLERANCE[kind]
            value["fitted"][number] = tuple(pair)
            assert [bool(problem) for problem in problems(value, 1)] == [
                expected and number == claim for number in range(4)
            ]


@pytest.mark.parametrize(("share", "expected"), [(0.9, False), (1.1, True)])
def test_noisy_networks_are_judged_together_too(problems, share, expected):
    value = right(1)
    value["fitted"] = [
        (alpha * (1 + share * TOGETHER * (one.kind == NOISY)), beta)
        for (alpha, beta), one in zip(value["fitted"], networks(1), strict=True)
    ]
    problem = problems(value, 1)[2]
    assert bool(problem) == expected
    assert problem is None or "together they are off by 1.5%" in problem.message


def test_a_negative_latency_is_named(hints):
    value = right(2)
    value["fitted"][-1] = (-1e-6, value["fitted"][-1][1])
    assert hints(value, 2) == ["", "", "", "negative"]


@pytest.mark.parametrize("value", [None, 3.0, [], (1.0,), (1.0, "2"), (float("nan"), 1.0), "ab"])
def test_what_is_no_pair_of_numbers_is_reported(hints, value):
    found = right(0) | {"fitted": [value] * sum(NETWORKS.values())}
    assert hints(found) == ["shape", "", "shape", "shape"]


@pytest.mark.parametrize("value", [None, "1", True])
def test_a_half_size_that_is_no_number_is_reported(hints, value):
    assert hints(right(0) | {"half": [value] * 8}) == ["", "shape", "", ""]


def test_a_half_size_that_is_not_written_costs_only_its_own_points(right_answer, played_here):
    unwritten = "\ndef half_size(alpha, beta, ranks):\n    raise NotImplementedError()\n"
    assert played_here(right_answer + unwritten, 1) == ["", "unwritten", "", ""]


def test_plain_least_squares_with_a_wrong_factor_besides_is_told_the_factor(hints):
    for key, mistake in OF_BETA:
        value = right(1)
        value["fitted"] = [(1.01 * one.alpha, mistake(one)[1]) for one in networks(1)]
        assert hints(value, 1)[0] == key


def test_no_message_has_what_should_have_been_found(problems):
    value = {"fitted": [(0.0123, 0.0456)] * sum(NETWORKS.values()), "half": [7.5] * 8}
    for problem in problems(value, 4):
        assert problem.expected
        assert problem.expected not in problem.message
    for one in networks(4):
        assert f"{one.alpha:.4g} s" not in " ".join(p.message for p in problems(value, 4))


def test_no_two_kinds_share_a_network():
    drawn = [(one.alpha, one.beta) for one in networks(5)]
    assert len(set(drawn)) == len(drawn) == sum(cases.NETWORKS.values())


@pytest.mark.parametrize("value", [None, [], {"fitted": [], "half": []}, {"fitted": 1.0}])
def test_fewer_values_than_calls_are_reported(hints, value):
    assert hints(value) == ["shape"] * 4


@pytest.mark.parametrize("whole", [round, int])
def test_half_size_may_be_whole_bytes(hints, whole):
    assert hints(right(6) | {"half": [whole(size) for size in right(6)["half"]]}, 6) == [""] * 4
