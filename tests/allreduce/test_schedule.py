"""Every schedule makes the sum, on every rank, whatever the number of ranks."""

from collections import Counter
from itertools import pairwise

import pytest

from hpml.allreduce import ALGORITHMS, Schedule, Transfer, replay, schedule
from hpml.allreduce.algorithms import RECURSIVE_DOUBLING
from hpml.errors import UserError

WORLDS = range(1, 17)


def of_all_sizes(algorithm):
    """Its schedule for 1 to 16 ranks; a hierarchical one for all nodes that come out even."""
    for world_size in WORLDS:
        nodes = (
            [d for d in WORLDS if world_size % d == 0] if algorithm == "hierarchical" else [None]
        )
        yield from (schedule(algorithm, world_size, per_node) for per_node in nodes)


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, RECURSIVE_DOUBLING])
def test_each_rank_ends_with_each_ranks_value_once_in_every_part(algorithm):
    for plan in of_all_sizes(algorithm):
        begin = [[Counter({rank: 1})] * plan.parts for rank in range(plan.world_size)]
        once = Counter(dict.fromkeys(range(plan.world_size), 1))
        assert replay(plan, begin) == [[once] * plan.parts] * plan.world_size, plan


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, RECURSIVE_DOUBLING])
def test_nobody_sends_to_itself_or_to_a_rank_that_is_not_there(algorithm):
    for plan in of_all_sizes(algorithm):
        for transfer in (transfer for step in plan.steps for transfer in step):
            assert transfer.source != transfer.destination
            assert {transfer.source, transfer.destination} <= set(range(plan.world_size))
            assert 0 <= transfer.first < transfer.last <= plan.parts


def test_a_rank_sends_and_receives_one_message_at_a_time_but_for_the_naive_root():
    for algorithm in ALGORITHMS[1:]:
        for plan in of_all_sizes(algorithm):
            assert {load.messages for load in plan.loads()} <= {1}, plan


@pytest.mark.parametrize(("world_size", "per_node"), [(4, 2), (6, 2), (6, 3), (16, 4)])
def test_what_leaves_a_node_is_what_one_rank_per_node_would_send(world_size, per_node):
    plan = schedule("hierarchical", world_size, per_node)
    nodes = world_size // per_node
    left = Counter()
    for transfer in (transfer for step in plan.steps for transfer in step):
        if transfer.source // per_node != transfer.destination // per_node:
            left[transfer.source // per_node] += (transfer.last - transfer.first) / plan.parts
    assert left == pytest.approx(dict.fromkeys(range(nodes), 2 * (nodes - 1) / nodes))


@pytest.mark.parametrize("per_node", [1, None])
def test_one_node_or_one_rank_on_each_is_a_ring(per_node):
    assert schedule("hierarchical", 5, per_node).steps == schedule("ring", 5).steps


def test_the_root_of_the_naive_one_has_all_messages_of_a_step():
    up, down = schedule("naive", 5).loads()
    assert (up.messages, up.parts, up.added) == (4, 4, 4)
    assert (down.messages, down.parts, down.added) == (4, 4, 0)


@pytest.mark.parametrize("length", [0, 1, 3, 10, 17])
def test_parts_cover_the_tensor_and_differ_by_one_element_at_most(length):
    cuts = schedule("ring", 4).cuts(length)
    sizes = [end - begin for begin, end in pairwise(cuts)]
    assert (cuts[0], cuts[-1]) == (0, length)
    assert max(sizes) - min(sizes) <= 1


def test_what_is_no_algorithm_is_refused_with_those_that_are():
    with pytest.raises(UserError, match="'butterfly' is not known: give naive, tree, ring"):
        schedule("butterfly", 4)


def test_nodes_that_do_not_come_out_even_are_refused():
    with pytest.raises(UserError, match="5 ranks do not make nodes of 2"):
        schedule("hierarchical", 5, 2)


@pytest.mark.parametrize(
    "step",
    [
        (Transfer(0, 1, 0, 1, adds=False), Transfer(1, 0, 0, 1, adds=False)),
        (Transfer(0, 2, 0, 1, adds=False), Transfer(1, 2, 0, 1, adds=False)),
        (Transfer(0, 2, 0, 1, adds=True), Transfer(1, 2, 0, 1, adds=False)),
    ],
    ids=["swaps", "replaced twice", "added to and replaced"],
)
def test_a_step_that_changes_what_it_uses_is_refused(step):
    with pytest.raises(ValueError, match="changes while it is in use"):
        replay(Schedule("wrong", 3, 1, (step,)), [[1], [2], [3]])


def test_messages_of_all_ranks_are_counted():
    counts = {name: schedule(name, 4, 2).messages for name in ALGORITHMS}
    assert counts["naive"] == counts["tree"] == 6
    assert counts["ring"] == 24


def test_two_ranks_that_exchange_what_they_add_to_both_have_the_sum():
    step = (Transfer(0, 1, 0, 1, adds=True), Transfer(1, 0, 0, 1, adds=True))
    assert replay(Schedule("exchange", 2, 1, (step,)), [[3], [4]]) == [[7], [7]]
