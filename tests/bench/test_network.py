"""./hpml bench network, for real but short: one slow link, one round."""

import dataclasses

import pytest

from hpml.bench import network
from hpml.errors import UserError


def test_links_and_launches_become_ratios(bench_command):
    table = bench_command("network", "--rounds", "1", rates=["10mbit"], worlds=[2])
    link, reduced, alone, linked, cost = table.rows
    assert (link.name, link.values) == ("10 Mbit/s", [0.01])
    assert reduced.name == "10 Mbit/s, 2 ranks"
    assert "0.1 MB at 10 Mbit/s" in table.conditions["by ranks"]
    # No link lets more through than its rate, but for one burst.
    assert 0 < table.ratios(reduced)[0] < 1.2
    assert table.ratios(linked) == [linked.values[0] / alone.values[0]]
    assert cost.values == [linked.values[0] - alone.values[0]]


def test_messages_grow_with_the_link():
    assert [network.message(rate) for rate in (10**8, 10**9, 10**10)] == [
        10**6,
        10**7,
        network.MOST,
    ]


def test_without_a_network_there_is_nothing_to_measure(monkeypatch):
    launch = network.launch

    def without(*arguments, link=None, **options):
        evidence = launch(*arguments, **options)
        return dataclasses.replace(evidence, no_link="namespaces are off" if link else "")

    monkeypatch.setattr(network, "launch", without)
    with pytest.raises(UserError, match="no network can be emulated here: namespaces are off"):
        network.bench(rounds=1, rates=["1gbit"], worlds=[2], report=lambda line: None)
