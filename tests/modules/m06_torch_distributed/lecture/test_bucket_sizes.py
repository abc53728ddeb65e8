"""The cost of a call from seconds and counted calls."""

import pytest

from hpml.modules.m06_torch_distributed.lecture.bucket_sizes import Averaged, calls_cost


def sizes(*seconds):
    names, calls = ("one per parameter", "64 KiB", "512 KiB", "all in one"), (128, 64, 5, 1)
    return {n: Averaged(c, s, 0.019) for n, c, s in zip(names, calls, seconds, strict=True)}


def test_a_call_costs_what_is_above_the_bound():
    found = sizes(0.192, 0.106, 0.023, 0.022)
    assert calls_cost(found)
    per_call = [1e3 * one.per_call for one in found.values()]
    assert per_call == pytest.approx([1.35, 1.36, 0.8, 3.0], abs=0.005)


@pytest.mark.parametrize("seconds", [(0.1, 0.106, 0.023, 0.022), (0.192, 0.02, 0.023, 0.022)])
def test_more_calls_that_take_no_longer_are_no_conclusion(seconds):
    assert not calls_cost(sizes(*seconds))


def test_calls_that_take_less_than_the_link_needs_are_no_conclusion():
    assert not calls_cost(sizes(0.018, 0.017, 0.016, 0.015))
