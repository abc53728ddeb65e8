"""All-reduces beside the model: what was measured is named, also where the model is wrong."""

import pytest

from hpml.modules.m01_parallel_sgd.lecture import allreduce_findings as findings
from hpml.predict.draw import Series

DIRECT = [(0, 1, 1, 1000), (0, 2, 1, 1000), (1, 0, 1, 1000)]
HALVES = [(0, 1, 2, 1000), (0, 2, 2, 500), (1, 0, 2, 1000)]


def panel(**measured):
    """The model: 1 ms for each, and 10 ns a byte (tree: 30 ns)."""
    return {
        name: Series(points, lambda n, cost=3e-8 if name == "tree" else 1e-8: 1e-3 + cost * n)
        for name, points in measured.items()
    }


def test_what_was_first_is_compared_with_what_the_model_has_first():
    seen = panel(tree={1_000: 1.2e-3, 10**7: 0.3}, ring={1_000: 5e-3, 10**7: 0.1})
    small, large = findings.order(seen, 1_000), findings.order(seen, 10**7)
    assert (small.first, small.last, small.expected) == ("tree", "ring", ["tree", "ring"])
    assert [findings.ms(s) for s in (small.taken["tree"], small.model["ring"])] == [
        "1.2 ms",
        "1.01 ms",
    ]
    assert large.held
    wrong = panel(tree={10**7: 0.1}, ring={10**7: 0.2}, naive={})
    assert not findings.order(wrong, 10**7).held


def test_an_error_is_the_median_over_the_algorithms_that_were_measured():
    seen = panel(tree={10**6: 0.062}, ring={1_000: 1.01e-3, 10**6: 0.011}, naive={})
    assert findings.misses(seen, [1_000, 10**6, 10**7]).large == pytest.approx(0.25)


def test_errors_have_a_direction_for_few_bytes_and_a_limit_for_many():
    exact = {10**6: 0.011}
    above = panel(ring={1_000: 4.04e-3} | exact, hierarchical={1_000: 1.01e-3} | exact)
    below = panel(ring={1_000: 0.303e-3} | exact)
    far = panel(ring={1_000: 1e-3, 10**6: 0.03})
    above, below, far = (findings.misses(seen, [1_000, 10**6]) for seen in (above, below, far))
    assert above.large == pytest.approx(0)
    assert (above.low, above.high) == ("hierarchical", "ring")
    assert above.small == pytest.approx({"ring": 4, "hierarchical": 1})
    assert [(one.above, one.below) for one in (above, below)] == [(True, False), (False, True)]
    assert [one.held for one in (above, below, far)] == [True, True, False]


def test_a_choice_is_held_against_the_quickest_of_the_same_library():
    measured = {"ring": 0.02, "rabenseifner": 0.03, "default": 0.05}
    series = {f"Open MPI, {name}": Series({1_000: s}) for name, s in measured.items()}
    series["Gloo's own"] = Series({1_000: 0.01})
    assert findings.choice_costs(series, 1_000) == ("ring", pytest.approx(2.5))


def test_open_mpis_choice_is_the_algorithm_that_sends_the_same_messages():
    known = {"recursive_doubling": DIRECT, "rabenseifner": HALVES}
    large = [(source, to, count, 4000 * size) for source, to, count, size in HALVES]
    assert findings.choice(DIRECT, 1_000, known) == (["recursive_doubling"], 2, 2)
    assert findings.choice(large, 4_000_000, known) == (["rabenseifner"], 4, 1.5)
    assert findings.choice(DIRECT, 1_000, {"rabenseifner": HALVES}).followed == []


def test_points_below_the_bound_are_named_only_where_there_are_some():
    series = {"ring": Series({1_000: 2e-5, 10_000: 5e-5})}
    assert findings.below_bound(series, lambda n: 1e-8 * n) == ["ring 10 kB"]
    assert findings.below_bound(series, lambda n: 1e-9 * n) == []
