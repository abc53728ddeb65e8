"""Lower bounds, held against algorithms that are counted by hand."""

import pytest

from hpml.allreduce import ALGORITHMS, schedule
from hpml.allreduce.algorithms import RECURSIVE_DOUBLING
from hpml.predict import collectives
from hpml.predict.collectives import Cost


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


# No two terms of a formula can stand in for each other.
COST = Cost(alpha=3e-5, beta=8e-9, gamma=1.7e-10)
UPLINK = Cost(alpha=7e-5, beta=9e-9)


@pytest.mark.parametrize("world_size", range(1, 18))
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, RECURSIVE_DOUBLING])
def test_the_formula_is_what_the_steps_add_up_to(algorithm, world_size):
    by_step = schedule(algorithm, world_size).seconds(1e6, COST)
    assert collectives.all_reduce_seconds(algorithm, 1e6, world_size, COST) == pytest.approx(
        by_step
    )


@pytest.mark.parametrize("across", [None, UPLINK, Cost(1e-6, 1e-10)])
@pytest.mark.parametrize(
    ("world_size", "per_node"), [(4, 1), (4, 2), (4, 4), (6, 2), (6, 3), (16, 4)]
)
def test_so_it_is_with_nodes_that_share_a_link(world_size, per_node, across):
    plan = schedule("hierarchical", world_size, per_node)
    if across is not None:  # the formula has the link's α, the steps the higher one of both
        across = Cost(max(COST.alpha, across.alpha), across.beta)
    assert collectives.all_reduce_seconds(
        "hierarchical", 1e6, world_size, COST, per_node, across
    ) == pytest.approx(plan.seconds(1e6, COST, per_node, across))


def test_a_ring_over_two_nodes_is_slower_than_a_hierarchical_all_reduce_by_what_crosses():
    within, across = Cost(0, 8e-10), Cost(0, 8e-9)
    ring = schedule("ring", 4).seconds(1e6, within, 2, across)
    assert ring == pytest.approx(1.5 * 1e6 * 8e-9)
    hierarchical = collectives.all_reduce_seconds("hierarchical", 1e6, 4, within, 2, across)
    assert hierarchical == pytest.approx(1e6 * 8e-10 + 1e6 * 8e-9)


@pytest.mark.parametrize("world_size", range(1, 18))
def test_no_algorithm_is_below_the_bound_and_a_ring_is_on_it_for_its_bytes(world_size):
    bytes_alone = Cost(0, COST.beta)
    least = collectives.least_seconds(1e6, world_size, COST)
    for algorithm in ALGORITHMS:
        seconds = collectives.all_reduce_seconds(algorithm, 1e6, world_size, bytes_alone)
        assert seconds >= least * (1 - 1e-12)
    assert collectives.all_reduce_seconds("ring", 1e6, world_size, bytes_alone) == pytest.approx(
        least
    )


def test_four_ranks_as_the_papers_count_them():
    alone = {
        "messages": Cost(1, 0),
        "bytes": Cost(0, 1),
        "additions": Cost(0, 0, 1),
    }
    counted = {
        algorithm: tuple(
            collectives.all_reduce_seconds(algorithm, 4, 4, cost) for cost in alone.values()
        )
        for algorithm in ALGORITHMS
    }
    assert counted == {
        "naive": (6, 24, 12),
        "tree": (4, 16, 8),
        "ring": (6, 6, 3),
        "halving-doubling": (4, 6, 3),
        "hierarchical": (6, 6, 3),
    }


def test_an_algorithm_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'butterfly' is not one of"):
        collectives.all_reduce_seconds("butterfly", 4, 4, COST)
