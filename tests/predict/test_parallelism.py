"""Ways of cutting a step: every cell computed once, weights and bytes as the formulas have them."""

import pytest

from hpml.predict.parallelism import (
    Exchange,
    Network,
    data_parallel,
    exchanges,
    hybrid,
    layer_parallel,
    tensor_parallel,
)

NETWORK = Network(layers=4, width=8, batch=12)  # 1024 bytes of weights, 384 of activations
PLANS = [
    data_parallel(NETWORK, 4),
    tensor_parallel(NETWORK, 4),
    layer_parallel(NETWORK, 4),
    layer_parallel(NETWORK, 4, micro_batches=6),
    hybrid(NETWORK, groups=2, stages=2, micro_batches=3),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_ranks_have_equal_shares_of_all_cells(plan):
    cells = [rank for row in plan.owner for rank in row]
    assert len(cells) == 4 * 4 * 4
    assert [cells.count(rank) for rank in range(4)] == [16] * 4


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_weights_that_a_rank_holds_are_those_of_the_columns_it_computes(plan):
    for rank in range(4):
        columns = {j for row in plan.owner for j, owner in enumerate(row) if owner == rank}
        assert plan.weights == len(columns) / 16 * NETWORK.weights


def test_data_parallel_sends_all_gradients_once_around():
    assert PLANS[0].sent == 2 * 3 / 4 * 1024


def test_tensor_parallel_sends_activations_for_each_pair_of_layers_each_way():
    assert PLANS[1].sent == 2 * 2 * (2 * 3 / 4) * 384
    odd = tensor_parallel(Network(layers=3, width=8, batch=12), 4)
    assert odd.sent == PLANS[1].sent


def test_stages_send_activations_one_way_and_their_gradients_the_other():
    assert PLANS[2].sent == 2 * 384
    assert layer_parallel(NETWORK, 2).sent == 384  # one cut: there is no stage in the middle
    assert layer_parallel(NETWORK, 1).sent == 0


def test_the_bubble_shrinks_with_micro_batches():
    assert PLANS[2].idle == 3 / 4
    assert PLANS[3].idle == 3 / (6 + 3)
    assert layer_parallel(NETWORK, 1).idle == 0


def test_a_hybrid_pays_for_both_on_its_share():
    assert PLANS[4].sent == 384 / 2 + 512  # half the batch between stages, half the gradients
    assert PLANS[4].idle == 1 / (3 + 1)


def test_layers_that_do_not_come_out_even_are_refused():
    with pytest.raises(ValueError, match="4 layers on 3 stages"):
        layer_parallel(NETWORK, 3)


def test_ranks_with_the_same_weights_add_up_gradients():
    assert exchanges(data_parallel(Network(4, 8, 8), 4)) == [
        Exchange("gradients", (4, 0.5), (4, 3.5))
    ]


def test_a_cut_layer_adds_up_activations_once_for_each_pair_of_layers():
    found = exchanges(tensor_parallel(Network(4, 8, 8), 4))
    assert [(one.what, one.begin[0], one.end[0]) for one in found] == [
        ("activations", 0, 8), ("activations", 8, 16),
    ]  # fmt: skip


def test_stages_pass_activations_over_each_border_and_a_hybrid_does_both():
    stages = exchanges(layer_parallel(Network(4, 8, 8), 4))
    assert [(one.what, (one.begin[0] + one.end[0]) / 2) for one in stages] == [
        ("activations", 4), ("activations", 8), ("activations", 12),
    ]  # fmt: skip
    both = exchanges(hybrid(Network(4, 8, 8), groups=2, stages=2, micro_batches=4))
    assert [one.what for one in both] == ["activations"] * 2 + ["gradients"] * 2


def test_one_rank_sends_nothing():
    assert exchanges(data_parallel(Network(4, 8, 8), 1)) == []
