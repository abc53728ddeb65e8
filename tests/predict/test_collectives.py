"""Lower bounds, held against algorithms that are counted by hand."""

import pytest

from hpml.predict import collectives


def ring_bytes(world_size: int, nbytes: int) -> float:
    """What a rank sends in a ring: p-1 chunks while adding up, p-1 while handing round."""
    return sum(nbytes / world_size for _ in range(2 * (world_size - 1)))


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 64])
def test_a_ring_sends_what_an_all_reduce_needs(world_size):
    assert collectives.all_reduce_bytes(world_size, 840) == pytest.approx(
        ring_bytes(world_size, 840)
    )


def root_sends(world_size: int) -> int:
    """How often the root of a binomial tree sends: in each round, all who have it send on."""
    have, rounds = 1, 0
    while have < world_size:
        have, rounds = 2 * have, rounds + 1
    return rounds


@pytest.mark.parametrize("world_size", range(1, 18))
def test_the_root_of_a_binomial_tree_sends_once_a_round(world_size):
    assert collectives.broadcast_bytes(world_size, 10) == 10 * root_sends(world_size)


def test_a_gigabit_carries_125_megabytes_a_second():
    assert collectives.seconds(125e6, 1e9) == 1
