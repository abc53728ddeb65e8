"""Samples shared among ranks: nobody's is lost, and by cost the slowest has little more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m02_hardware.lecture.balance import (
    by_cost,
    by_count,
    imbalance,
    pace,
    waits,
)
from hpml.ranks.evidence import Evidence, Mark, RankEvidence

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


def launched(**ends):
    """Two ranks, each way once: rank r computes until `ends[way][r]`, and the step lasts as long as
    the slower one."""
    ranks = []
    for rank in range(2):
        marks, start = [], 0.0
        for way, until in ends.items():
            names = (f"{way} begins", "forward 3 begins", "forward 3 ends", f"{way} ends")
            at = (start, start, start + until[rank], start + max(until))
            marks += [
                Mark(name.replace("_", " "), when) for name, when in zip(names, at, strict=True)
            ]
            start += 10
        ranks.append(RankEvidence(rank, "returned", marks=tuple(marks)))
    return Evidence(2, tuple(ranks), 20.0)


def test_the_second_way_has_to_be_quicker_and_ranks_idle_less():
    names = ("by number", "by cost")
    found = waits(launched(by_number=(3, 1), by_cost=(2, 2)), names)
    assert found == (True, 3, 2, pytest.approx(1 / 3), 0)
    assert not waits(launched(by_number=(3, 1), by_cost=(3, 1)), names).held
