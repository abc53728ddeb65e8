"""All-reduces beside the model: what was measured is named, also where the model is wrong."""

import pytest

from hpml.modules.m01_parallel_sgd.lecture import allreduce_findings as findings
from hpml.predict.draw import Series

DIRECT = [(0, 1, 1, 1000), (0, 2, 1, 1000), (1, 0, 1, 1000)]
HALVES = [(0, 1, 2, 1000), (0, 2, 2, 500), (1, 0, 2, 1000)]


def test_the_quickest_by_the_model_are_named_for_both_sizes():
    models = {"few messages": lambda n: 1e-3 + 2e-8 * n, "few bytes": lambda n: 2e-3 + 1e-8 * n}
    _, sentence, _ = findings.quickest(models, small=1_000, large=10_000_000, even=25_000)
    assert "for 1 kB few messages (1.0 ms, and few bytes 2.0 ms)" in sentence
    assert "for 10 MB few bytes (102 ms, and few messages 201 ms)" in sentence
    assert "25 kB" in sentence


def test_adding_up_is_left_out_only_where_it_costs_little():
    held, sentence, _ = findings.adding(gamma=1e-10, beta=8e-9)
    assert held
    assert "γ = 0.10 ns per byte, to send 8.0 ns, 80 times as much" in sentence
    assert not findings.adding(gamma=4e-9, beta=8e-9)[0]


def test_across_nodes_hierarchical_is_called_faster_only_where_the_model_says_so():
    slow, fast = (lambda n: 3e-8 * n), (lambda n: 1e-8 * n)
    held, sentence, _ = findings.across_nodes({"ring": slow, "hierarchical": fast}, 1_000_000)
    assert held
    assert "hierarchical takes 10 ms for 1 MB, a ring 30 ms" in sentence
    assert not findings.across_nodes({"ring": fast, "hierarchical": slow}, 1_000_000)[0]


def panel(**measured):
    """The model: 1 ms for each, and 10 ns a byte (tree: 30 ns)."""
    return {
        name: Series(points, lambda n, cost=3e-8 if name == "tree" else 1e-8: 1e-3 + cost * n)
        for name, points in measured.items()
    }


def test_what_was_first_is_named_beside_what_the_model_has_first():
    seen = panel(tree={1_000: 1.2e-3, 10**7: 0.3}, ring={1_000: 5e-3, 10**7: 0.1})
    held, sentence, _ = findings.measured_first(seen, 1_000, 10**7)
    assert held
    assert "for 1 kB tree (1.2 ms), and last ring (5 ms; model 1.01 ms)" in sentence
    assert (
        "The model has tree and ring first. Measured first is for 10 MB ring (100 ms)" in sentence
    )
    wrong = panel(tree={1_000: 1e-3, 10**7: 0.1}, ring={1_000: 5e-3, 10**7: 0.2})
    assert not findings.measured_first(wrong, 1_000, 10**7)[0]


def test_the_error_is_the_median_over_the_algorithms_that_were_measured():
    seen = panel(tree={1_000: 2.06e-3}, ring={1_000: 1.01e-3, 10**6: 0.011})
    found = findings.errors(seen, [1_000, 10**6, 10**7])
    assert found == {1_000: pytest.approx(0.25), 10**6: pytest.approx(0)}


def test_the_models_error_is_told_for_each_panel_with_its_direction():
    exact = {10**6: 0.011}
    above = panel(ring={1_000: 4.04e-3} | exact, hierarchical={1_000: 1.01e-3} | exact)
    below = panel(ring={1_000: 0.303e-3} | exact)
    counts = {"ring": 24, "hierarchical": 16}
    held, sentence, _ = findings.model_error({"one": above}, [1_000, 10**6], counts, 2)
    assert held
    assert "one: from 1 MB on the model is off by at most 0%" in sentence
    assert "1 (hierarchical) to 4 (ring) times the model's" in sentence
    assert "Here 2 cores do the work of all messages: 24 with ring and 16 with" in sentence
    assert "below" not in sentence
    panels = {"one": above, "two": below}
    _, sentence, _ = findings.model_error(panels, [1_000, 10**6], counts, 2)
    assert "two: from 1 MB on" in sentence
    assert "Points above" in sentence
    assert "Points below their line: α came out too high" in sentence
    _, sentence, _ = findings.model_error({"two": below}, [1_000, 10**6], counts, 2)
    assert "Points above" not in sentence
    far = panel(ring={1_000: 1e-3, 10**6: 0.03})
    assert not findings.model_error({"one": above, "far": far}, [1_000, 10**6], counts, 2)[0]


def test_open_mpis_choice_is_the_algorithm_that_sends_the_same_messages():
    known = {"recursive_doubling": DIRECT, "rabenseifner": HALVES}
    large = [(source, to, count, 4000 * size) for source, to, count, size in HALVES]
    held, sentence, _ = findings.own_choice({1_000: DIRECT, 4_000_000: large}, known)
    assert held
    assert (
        "for 1 kB those of `recursive_doubling` (rank 0 sends 2 messages, 2 times its bytes)"
        in sentence
    )
    assert (
        "for 4 MB those of `rabenseifner` (rank 0 sends 4 messages, 1.5 times its bytes)"
        in sentence
    )
    held, _, otherwise = findings.own_choice({1_000: DIRECT}, {"rabenseifner": HALVES})
    assert not held
    assert "those of none" in otherwise


def test_equal_messages_show_how_far_times_scatter():
    names = {"Open MPI, a": 1e-4, "Open MPI, b": 1.6e-4}
    series = {name: Series({1_000: seconds}) for name, seconds in names.items()}
    assert "a factor of 1.6 apart" in findings.noise(series, "a", "b", 1_000)[1]


def test_points_below_the_bound_are_named_only_where_there_are_some():
    series = {"ring": Series({1_000: 2e-5, 10_000: 5e-5})}
    assert "Below 1 ×: ring 10 kB." in findings.below_bound(series, lambda n: 1e-8 * n)[1]
    assert "No point" in findings.below_bound(series, lambda n: 1e-9 * n)[1]
