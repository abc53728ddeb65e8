"""Both ends of a curve: what is read off them, and where that does not hold."""

import pytest

from hpml.allreduce.curves import Network
from hpml.allreduce.micro_benchmark import sizes
from hpml.measure.comm import Fit
from hpml.modules.m08_case_studies.lecture.curve_ends import (
    latency_then_bandwidth,
    software_and_link,
    who_wins,
)
from hpml.network.link import parse_link

NAN = float("nan")
GIGABIT = Network(parse_link("1gbit", 4), 4, Fit(1e-4, 8e-9, NAN, NAN), None)


def line(alpha, beta):
    return {n: alpha + n * beta for n in sizes(1 << 24)}


def test_latency_then_bandwidth_is_seen_where_it_is():
    found = latency_then_bandwidth(line(1e-4, 1e-9))
    assert found.held
    assert (found.first, found.small, found.large) == (4, 4096, 1 << 24)
    assert found.more == pytest.approx(1.04, abs=0.01)
    assert not latency_then_bandwidth(line(1e-9, 1e-9)).held
    assert not latency_then_bandwidth(line(1.0, 1e-12)).held


def test_who_wins_is_read_off_both_ends():
    doubling, ring = line(2e-4, 1.6e-8), line(6e-4, 1.2e-8)
    found = who_wins(GIGABIT, doubling, ring)
    assert found.held
    assert found.sooner == 1 << 18
    assert found.equal == pytest.approx(100e3)
    assert found.equal_at_work == pytest.approx(100e3, rel=0.01)
    late = {n: seconds + 6 * 4e-4 for n, seconds in ring.items()}
    assert who_wins(GIGABIT, doubling, late).equal_at_work == pytest.approx(500e3, rel=0.01)
    assert not who_wins(GIGABIT, ring, doubling).held


def test_software_counts_for_small_messages_and_the_link_for_large_ones():
    python, c = line(1e-3, 1.2e-8), line(1e-4, 1.2e-8)
    found = software_and_link(python, c, 4)
    assert found.held
    assert found.at_small == pytest.approx(9.9, abs=0.1)
    assert found.at_large == pytest.approx(1.0, abs=0.01)
    assert not software_and_link(c, c, 4).held
