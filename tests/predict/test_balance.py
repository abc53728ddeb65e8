"""Samples shared among ranks: nobody's is lost, and by cost the slowest has little more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.predict.balance import by_cost, by_count, imbalance, pace

costs = st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=40)


@given(costs, st.integers(1, 8))
def test_by_cost_every_sample_is_somebodys(costs, ranks):
    shares = by_cost(costs, ranks)
    assert len(shares) == ranks
    assert sorted(cost for share in shares for cost in share) == sorted(costs)


@given(costs, st.integers(1, 8))
def test_by_cost_is_within_grahams_bound_of_what_is_possible(costs, ranks):
    at_best = max(sum(costs) / ranks, max(costs))
    # Of the best possible, which is no less than this; list scheduling is within 2 of it
    assert pace(by_cost(costs, ranks)) <= 2 * at_best * (1 + 1e-9)


def test_the_worst_case_of_graham():
    """Seven jobs on three machines: 11 in place of 9, which is 4/3 - 1/9."""
    assert pace(by_cost([5, 5, 4, 4, 3, 3, 3], 3)) == 11


def test_by_count_keeps_the_order():
    assert by_count([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]
    assert imbalance([[1, 2], [3, 4]]) == pytest.approx(1.4)
    with pytest.raises(ValueError, match="do not divide"):
        by_count([1, 2, 3], 2)
