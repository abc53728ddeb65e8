"""Exercise split_layers: what its judges say of a good run with one thing changed."""

import itertools
from dataclasses import replace
from functools import partial

import pytest
import torch

from hpml.modules.m07_hybrid_parallelism.checks import _pipelined_training as training
from hpml.modules.m07_hybrid_parallelism.checks.split_layers import CHECK, SIZES

GRADIENTS, LOSS, MESSAGES = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 3, 5)


@pytest.fixture
def with_values(good, with_ranks):
    """`with_values(change)`: with `change(rank, value)` for what each rank returned."""
    return lambda change: with_ranks(
        good, lambda one: replace(one, value=change(one.rank, one.value))
    )


@pytest.fixture
def with_calls(good, with_ranks):
    """`with_calls(change)`: with `change(rank, call)` for each call; None leaves it out."""

    def of_rank(change, one):
        calls = (change(one.rank, call) for call in one.calls)
        return replace(one, calls=tuple(call for call in calls if call))

    return lambda change: with_ranks(good, partial(of_rank, change))


def test_inputs_are_fresh_for_every_seed():
    first, other = (CHECK.inputs(seed, 4)[0]["served"][0]["targets"] for seed in (1, 2))
    assert not torch.equal(first, other)


def test_stages_are_uneven_and_have_widths_of_their_own():
    ranks = CHECK.inputs(1, 4)
    assert len({len(rank["widths"]) for rank in ranks}) > 1
    for rank, behind in itertools.pairwise(ranks):
        assert rank["widths"][-1] == behind["widths"][0]


def test_only_the_ends_are_served_the_batch():
    _, reply = training.serve(CHECK.inputs(1, 3))
    served = [reply(rank, "step")[0].value for rank in range(3)]
    assert [batch is not None for batch, _, _ in served] == [True, False, False]
    assert [targets is not None for _, targets, _ in served] == [False, False, True]
    assert all(shape[0] == SIZES[0][0] for _, _, shape in served)


@pytest.mark.parametrize("times", [-1.0, 0.0])
def test_gradients_turned_round_or_of_no_length_are_off_by_a_factor(with_values, times):
    def change(rank, value):
        first, *rest = value["gradients"]
        return {**value, "gradients": [{k: times * g for k, g in first.items()}, *rest]}

    problem = GRADIENTS(with_values(change))
    assert problem.hint == "factor"
    assert "in step 1," in problem.message


def test_behind_right_gradients_the_way_back_is_wrong(with_values):
    def of(wrong):
        def change(rank, value):
            if rank != wrong:
                return value
            drawn = [{k: g + torch.rand_like(g) for k, g in s.items()} for s in value["gradients"]]
            return {**value, "gradients": drawn}

        return GRADIENTS(with_values(change))

    assert [of(rank).hint for rank in range(3)] == ["border", "border", "parity"]


def test_a_loss_of_wrong_weights_is_explained_by_the_gradients(with_values):
    def change(rank, value):
        first, *losses = value["losses"]
        changed = {**value, "losses": [first, *(loss and 2 * loss for loss in losses)]}
        if rank == 0:
            changed["gradients"] = [{}, *value["gradients"][1:]]
        return changed

    def loss_alone(rank, value):
        return {**change(rank, value), "gradients": value["gradients"]}

    run = with_values(change)
    assert LOSS(run) == GRADIENTS(run)
    assert LOSS(with_values(loss_alone)).hint == "loss"


def test_a_later_step_counts_too(with_values):
    def change(rank, value):
        *rest, last = value["gradients"]
        return {**value, "gradients": [*rest, {k: g + 1e-6 for k, g in last.items()}]}

    assert "in step 3" in GRADIENTS(with_values(change)).message


def test_a_rank_that_is_no_neighbour_is_named(with_calls):
    def change(rank, call):
        return replace(call, peer=2) if rank == 0 and call.operation == "send" else call

    problem = MESSAGES(with_calls(change))
    assert (problem.hint, problem.message) == ("neighbours", "rank 0 sends to rank 2")


def test_gradients_that_are_not_sent_back_are_missed(with_calls):
    def change(rank, call):
        return None if rank == 2 and call.operation == "send" else call

    assert MESSAGES(with_calls(change)).hint == "sent_back"


def test_a_shorter_message_is_seen(with_calls):
    def change(rank, call):
        return replace(call, nbytes=call.nbytes // 2) if rank == 1 else call

    assert MESSAGES(with_calls(change)) is not None
