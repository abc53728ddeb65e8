"""A ring in another order: the same sums, other bytes between nodes."""

from dataclasses import replace

import pytest

from hpml.allreduce import schedule
from hpml.modules.m08_case_studies.lecture.rank_order import (
    DEALT_OUT,
    IN_ORDER,
    TWO_LEVELS,
    Crossed,
    dealt_out,
    order_counts,
    plans,
    renumbered,
    table,
)
from hpml.predict.collectives import Cost
from hpml.ranks import launch


def crossing(plan, per_node):
    """How many tensors the busiest node sends."""
    return sum(load.crossing[1] for load in plan.loads(per_node)) / plan.parts


def test_ranks_are_dealt_out_one_to_each_node_in_turn():
    assert dealt_out(2, 4) == [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize(("nodes", "per_node"), [(2, 2), (2, 4), (3, 2)])
def test_bytes_between_nodes(nodes, per_node):
    ranks = nodes * per_node
    made = plans(nodes, per_node)
    assert crossing(made[IN_ORDER], per_node) == pytest.approx(2 * (ranks - 1) / ranks)
    assert crossing(made[DEALT_OUT], per_node) == pytest.approx(per_node * 2 * (ranks - 1) / ranks)
    assert crossing(made[TWO_LEVELS], per_node) == pytest.approx(2 * (nodes - 1) / nodes)


def test_the_time_goes_with_the_bytes():
    fast, slow = Cost(0.0, 1e-9), Cost(0.0, 1e-7)
    seconds = {name: plan.seconds(1e6, fast, 4, slow) for name, plan in plans(2, 4).items()}
    assert seconds[DEALT_OUT] == pytest.approx(4 * seconds[IN_ORDER])
    assert seconds[TWO_LEVELS] < seconds[IN_ORDER]


def test_a_renumbered_schedule_makes_the_same_sums():
    plan = renumbered(schedule("ring", 4), [2, 0, 3, 1])

    def drive(plan):
        import torch
        import torch.distributed as dist

        from hpml.allreduce.execute import run

        tensor = torch.arange(10.0) + dist.get_rank()
        run(plan, tensor)
        return tensor.tolist()

    evidence = launch(drive, 4, inputs=[plan] * 4)
    assert list(evidence.values) == [[4.0 * k + 6 for k in range(10)]] * 4


def test_an_order_has_each_rank_once():
    with pytest.raises(ValueError, match="not an order of 4 ranks"):
        renumbered(schedule("ring", 4), [0, 1, 1, 3])


def test_the_order_counts_where_bytes_and_seconds_do():
    found = {
        IN_ORDER: Crossed(1.9, 0.15, 0.14),
        DEALT_OUT: Crossed(7.4, 0.60, 0.56),
        TWO_LEVELS: Crossed(1.1, 0.10, 0.09),
    }
    assert order_counts(found)
    assert not order_counts(found | {DEALT_OUT: replace(found[DEALT_OUT], seconds=0.16)})
    assert not order_counts(found | {TWO_LEVELS: replace(found[TWO_LEVELS], sent=2.0)})
    assert len(table(found).splitlines()) == 4
