"""What the lecture finds: each holds where it was measured, and only there."""

import math

import pytest

from hpml.modules.m01_parallel_sgd.lecture import findings
from hpml.modules.m01_parallel_sgd.lecture.updates import Update
from hpml.ranks.evidence import Call, Evidence, RankEvidence


def test_the_rule_nearest_to_one_worker_and_those_that_diverge_are_named():
    runs = {
        "1 worker": [(1, 2.0), (2, 0.2)],
        "none": [(1, 2.0), (2, 1.2)],
        "sqrt": [(1, 2.0), (2, 0.7)],
        "linear": [(1, 2.0), (2, math.nan)],
        "bold": [(1, 90.0), (2, 0.1)],
    }
    found = findings.rules(runs, diverged=30)
    assert found.held
    assert (found.nearest, found.farthest, found.alone) == (("sqrt", 0.7), ("none", 1.2), 0.2)
    assert found.diverged == ["linear", "bold"]
    bold = {"bold": runs["bold"]}
    assert not findings.rules({"1 worker": [(1, 0.9)], "none": [(1, 0.5)]} | bold, 30).held
    assert not findings.rules({"1 worker": [(1, 0.9)], "none": [(1, 1.5)]}, 30).held
    assert not findings.rules({"1 worker": [(1, 0.9)], "none": [(1, 99.0)]}, 30).held


def synchronous(seconds, waits, ranks=4):
    calls = tuple(
        Call(n, "all_reduce", (0, 1), n, "float32", (2,), 8, "sum", 1, at, at, at + waits)
        for n, at in enumerate((1.0, 2.0))
    )
    first = RankEvidence(0, "returned", value=[{"at": seconds / 2}, {"at": seconds}], calls=calls)
    others = tuple(RankEvidence(rank, "returned") for rank in range(1, ranks))
    return Evidence(ranks, (first, *others), seconds)


def asynchronous(seconds, workers):
    log = [{"worker": worker, "at": seconds} for worker in workers]
    return Evidence(1, (RankEvidence(0, "returned", value=log),), seconds)


def test_the_share_of_waiting_is_that_of_the_all_reduces():
    assert findings.waited(synchronous(0.4, 0.15), rank=0) == pytest.approx(0.75)


def test_not_waiting_holds_where_it_was_sooner_and_the_straggler_made_least():
    together, apart = synchronous(0.4, 0.1), asynchronous(0.1, [0, 2, 3, 0, 2, 3, 1])
    found = findings.without_waiting(together, apart, slow=1)
    assert found == (True, 2, 0.4, 0.1, [2, 1, 2, 2])
    assert not findings.without_waiting(together, apart, slow=0).held
    assert not findings.without_waiting(synchronous(0.05, 0.01), apart, slow=1).held


def log(stale, *places):
    return [Update(0.1 * n, 0, stale, (place, 0.0)) for n, place in enumerate(places)]


def test_four_workers_that_do_not_settle_are_told_from_four_that_do():
    alone = log(0, 3.0, 0.0)
    far, near = log(3, 3.0, 5.0, -5.0, 5.0), log(3, 3.0, 0.0, 0.0, 0.0)
    found = findings.staleness(alone, far, 0.0)
    assert found.held
    assert (found.late, found.away) == ([0, 3], [0, 5])
    assert not findings.staleness(alone, near, 0.0).held
    assert not findings.staleness(alone, log(1, 3.0, 5.0, -5.0, 5.0), 0.0).held


def run(seconds, worker, *places, stale=0):
    each = seconds / len(places)
    return [
        Update(each * (n + 1), worker if worker < 0 else n % worker, stale, (place, 0.0))
        for n, place in enumerate(places)
    ]


def test_runs_with_and_without_waiting_are_compared_at_the_same_time():
    waiting = {
        "1 worker": run(0.3, -1, 0.0, 0.0, 0.0),
        "4 workers": run(0.3, -1, 3.0, 1.0, 1.0),
        "4, one slow": run(3.0, -1, 5.0, 0.0, 0.0),
    }
    going_on = {
        "1 worker": run(0.3, 1, 9.0, 9.0, 9.0),
        "4 workers": run(0.3, 4, 5.0, 5.0, 5.0, 5.0, stale=3),
        "4, one slow": run(1.0, 4, 3.0, 2.0, 2.0, 2.0, stale=1),
    }
    found = findings.in_the_same_time(waiting, going_on, lambda x, y: x)
    assert found.held
    assert (found.ahead, found.level, found.behind) == (["4, one slow"], [], ["4 workers"])
    # The synchronous one had made a step after 1 s, and its later ones do not count.
    assert found.pairs["4, one slow"] == (1.0, 5.0, 2.0, 1.0)
    nearer = going_on | {"4 workers": run(0.3, 4, 0.0, 0.0, 0.0, 0.0)}
    found = findings.in_the_same_time(waiting, nearer, lambda x, y: x)
    assert not found.held
    assert found.pairs["4 workers"] == pytest.approx((0.3, 5 / 3, 0, 0))
    level = going_on | {"4 workers": run(0.3, 4, *[5 / 3] * 3)}
    found = findings.in_the_same_time(waiting, level, lambda x, y: x)
    assert (found.level, found.behind) == (["4 workers"], [])


def test_bytes_are_those_of_the_algorithm_and_some_headers():
    assert findings.as_due(12.4e6, 12e6)
    assert not findings.as_due(6.2e6, 12e6)
    assert not findings.as_due(12.4e6, 6e6)


def test_who_sends_least_between_nodes_is_named():
    found = {
        "naive": (6, 6.0, 2.1),
        "tree": (6, 6.0, 1.07),
        "ring": (24, 6.0, 1.6),
        "halving-doubling": (16, 6.0, 2.2),
        "hierarchical": (16, 6.0, 1.08),
    }
    expected = True, ["naive", "tree"], ["tree", "hierarchical"]
    assert findings.least_crossing(found) == expected
    assert not findings.least_crossing(found | {"ring": (24, 6.0, 1.0)}).held
    assert not findings.least_crossing(found | {"ring": (24, 9.0, 1.6)}).held


def test_names_are_listed_and_none_are_nothing():
    lists = [[], ["a"], ["a", "b"], ["a", "b", "c"]]
    assert [*map(findings.listed, lists)] == ["", "a", "a and b", "a, b and c"]
