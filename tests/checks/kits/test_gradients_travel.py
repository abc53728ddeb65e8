"""How much ranks sent each other, held against the gradients that had to travel."""

from dataclasses import replace

import pytest

from hpml.checks.chatter import CYCLE, PER_CYCLE
from hpml.checks.kits.gradients_travel import TRAVEL, wrong_traffic
from hpml.checks.run_check import GENERAL_HINTS
from hpml.network.link import parse_link
from hpml.predict.collectives import all_reduce_bytes
from hpml.ranks.evidence import Evidence, RankEvidence, Traffic

GRADIENT, STEPS = 100_000, 10


def launched(world_size, sent, seconds=1.0):
    ranks = [
        RankEvidence(rank, "returned", traffic=Traffic(round(sent), 1, round(sent), 1))
        for rank in range(world_size)
    ]
    link = parse_link("10gbit", world_size)
    return Evidence(world_size, tuple(ranks), seconds, link=link)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_all_reduces_of_gradients_are_right_and_so_are_gathered_ones(world_size):
    for each in (all_reduce_bytes(world_size, GRADIENT), (world_size - 1) * GRADIENT):
        assert wrong_traffic(launched(world_size, STEPS * each), GRADIENT, STEPS) is None


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_less_than_the_gradients_is_too_little_and_much_more_is_too_much(world_size):
    for sent in (0, STEPS * GRADIENT - 1, 10 * world_size * STEPS * GRADIENT):
        problem = wrong_traffic(launched(world_size, sent), GRADIENT, STEPS)
        assert problem.hint == TRAVEL
        assert f"rank 0 sent {sent / 1e3:.0f} kB" in problem.message
    assert TRAVEL in GENERAL_HINTS


def test_what_horovod_says_in_every_cycle_is_allowed_for():
    sent = 10**7
    assert wrong_traffic(launched(2, sent, 1.0), GRADIENT, STEPS) is not None
    assert wrong_traffic(launched(2, sent, sent * CYCLE / PER_CYCLE), GRADIENT, STEPS) is None


def test_there_is_nothing_to_count_without_a_link_and_alone():
    found = launched(2, 0)
    unlinked = tuple(replace(rank, traffic=None) for rank in found.ranks)
    assert wrong_traffic(replace(found, ranks=unlinked, link=None), GRADIENT, STEPS) is None
    assert wrong_traffic(launched(1, 0), GRADIENT, STEPS) is None
