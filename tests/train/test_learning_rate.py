"""The learning rate follows ranks by a named rule, rises, and falls."""

import itertools

import pytest

from hpml.train.learning_rate import END, RULES, START, shape


@pytest.mark.parametrize(("rule", "factor"), [("none", 1), ("sqrt", 2), ("linear", 4)])
def test_the_named_rule_scales_with_ranks(rule, factor):
    assert RULES[rule](4) == factor
    assert RULES[rule](1) == 1


def test_it_starts_low_peaks_after_the_warm_up_and_ends_low():
    assert shape(0, warmup=0.25) == pytest.approx(START)
    assert shape(0.25, warmup=0.25) == pytest.approx(1)
    assert shape(1, warmup=0.25) == pytest.approx(END)


def test_it_never_exceeds_the_peak_and_never_jumps():
    values = [shape(step / 1000, warmup=0.25) for step in range(1001)]
    assert max(values) == pytest.approx(1)
    assert max(abs(a - b) for a, b in itertools.pairwise(values)) < 0.005


@pytest.mark.parametrize("warmup", [0, 1])
def test_no_warm_up_and_nothing_else_work_too(warmup):
    assert shape(0, warmup) == pytest.approx(START if warmup else 1)
    assert END <= shape(1, warmup) <= 1
