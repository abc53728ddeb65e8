"""Curves: what is measured, for how long, and what the model is fed with."""

import cloudpickle
import pytest

from hpml.allreduce import ALGORITHMS, curves
from hpml.allreduce.timing import LIBRARY
from hpml.checks import find
from hpml.errors import UserError
from hpml.measure.comm import Fit
from hpml.network.link import parse_link
from hpml.predict.collectives import Cost, all_reduce_seconds
from hpml.ranks import Evidence, RankEvidence

NAN = float("nan")
FLAT = curves.Network(parse_link("1gbit", 4), 4, Fit(1e-4, 8e-9, NAN, NAN), None)
NODES = curves.Network(
    parse_link("nodes=2x2,intra=1gbit,inter=100mbit", 4),
    4,
    Fit(1e-4, 8e-9, NAN, NAN),
    Fit(2e-4, 8e-8, NAN, NAN),
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_on_a_network_without_nodes_the_prediction_is_the_closed_form(algorithm):
    expected = all_reduce_seconds(algorithm, 1e6, 4, Cost(1e-4, 8e-9), per_node=2)
    assert curves.predicted(FLAT, algorithm)(1e6) == pytest.approx(expected)


def test_between_nodes_the_slow_link_counts():
    hierarchical = curves.predicted(NODES, "hierarchical")(1e6)
    across = Cost(2e-4, 8e-8)
    expected = all_reduce_seconds("hierarchical", 1e6, 4, Cost(1e-4, 8e-9), 2, across)
    assert hierarchical == pytest.approx(expected)
    assert curves.predicted(NODES, "ring")(1e6) > 5 * curves.predicted(FLAT, "ring")(1e6)


def test_what_takes_too_long_is_left_out_and_what_is_quick_is_repeated():
    expected = {"slow": lambda nbytes: nbytes * 1e-3, "quick": lambda nbytes: nbytes * 1e-5}
    assert curves.plan(expected, [3000, 100, 1000], longest=1.0) == [
        ("slow", 100, 1),
        ("quick", 100, curves.MOST),
        ("slow", 1000, 1),
        ("quick", 1000, 10),
        ("quick", 3000, 3),
    ]


@pytest.fixture
def slow_between_nodes(monkeypatch):
    """Records each ping-pong. Between nodes of two ranks a byte takes ten times as long."""
    asked = []

    def launch(drive, world_size, link):
        return Evidence(1, (RankEvidence(0, "returned", [link, world_size, drive]),), 1.0)

    def fit(sizes, returned):
        link, world_size, drive = returned
        peer = drive.args[-1]
        asked.append((link, world_size, peer, max(sizes)))
        return Fit(1e-4, 8e-9 if peer // 2 == 0 else 8e-8, NAN, NAN)

    monkeypatch.setattr(curves, "launch", launch)
    monkeypatch.setattr(curves, "fit", fit)
    return asked


def test_messages_are_measured_within_a_node_and_between_two(slow_between_nodes):
    text = "nodes=2x2,intra=1gbit,inter=100mbit"
    found = curves.network(text, 4)
    assert sorted(slow_between_nodes) == [(text, 4, 1, 10**7), (text, 4, 2, 10**6)]
    assert (found.within.beta, found.across.beta) == (8e-9, 8e-8)


def test_without_nodes_there_is_nothing_between_them(slow_between_nodes):
    assert curves.network("100mbit", 3).across is None
    assert slow_between_nodes == [("100mbit", 3, 1, 10**6)]


def test_without_an_emulated_network_the_error_names_it(monkeypatch):
    nothing = Evidence(2, (RankEvidence(0, "returned"),) * 2, 1.0, no_link="namespaces are off")
    monkeypatch.setattr(curves, "launch", lambda *_, **__: nothing)
    with pytest.raises(UserError, match="namespaces are off"):
        curves.network("1gbit", 4)
    with pytest.raises(UserError, match="namespaces are off"):
        curves.measured(FLAT, ["ring"], [1000], longest=9)


def test_every_algorithm_is_measured_at_every_size_on_real_ranks():
    taken = curves.measured(FLAT, [*ALGORITHMS, LIBRARY], [4, 4000], longest=9)
    assert {name: list(sizes) for name, sizes in taken.items()} == {
        name: [4, 4000] for name in [*ALGORITHMS, LIBRARY]
    }
    assert all(seconds > 0 for sizes in taken.values() for seconds in sizes.values())


def test_what_is_measured_can_be_sent_by_value():
    find("alpha_beta")  # from then on, drives take the package with them
    assert cloudpickle.dumps(curves._on_rank)


def test_the_bound_is_that_of_the_busiest_link():
    assert curves.least(FLAT, 1_000_000) == pytest.approx(8e-9 * 1_500_000)
    # Two nodes: 2 (2-1)/2 · 1 MB over the 100 Mbit/s between them.
    assert curves.least(NODES, 1_000_000) == pytest.approx(8e-8 * 1_000_000)


def test_of_each_size_the_quickest_round_of_a_ping_pong_counts(monkeypatch):
    noise = iter((5, 5, 1, 1, 3, 3))

    def ping_pong(sizes, repeats, peer):
        late = next(noise)
        return [late + nbytes for nbytes in sizes]

    monkeypatch.setattr(curves, "ping_pong", ping_pong)
    assert curves._ping_pong((4, 8), (1000,), 1) == [5, 9, 1001]
