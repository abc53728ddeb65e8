"""Exercise gpipe: what its judges say of a good run, and of the same run with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.m07_hybrid_parallelism import _pipelined_training as training
from hpml.checks.m07_hybrid_parallelism._pipelined_claims import most_live, order_of
from hpml.checks.m07_hybrid_parallelism.gpipe import CHECK
from hpml.checks.plays import play_once

GRADIENTS, LOSS, MESSAGES, ORDER = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(solution):
    source = solution("gpipe").replace("%%answer", "#", 1)
    run, fault = play_once(CHECK, source, world_size=2, seed=5)
    assert fault is None
    return run


def with_rank(run, rank, change):
    """The run with `change(evidence)` in place of one rank's evidence."""
    ranks = list(run.evidence.ranks)
    ranks[rank] = change(ranks[rank])
    return replace(run, evidence=replace(run.evidence, ranks=tuple(ranks)))


def with_gradients(run, step, rank, gradients):
    def change(evidence):
        every = list(evidence.value["gradients"])
        every[step] = gradients
        return replace(evidence, value={**evidence.value, "gradients": every})

    return with_rank(run, rank, change)


def without_requests(run, rank, kind, keep):
    """The run in which a rank asked for the first `keep` passes of a kind only."""

    def change(evidence):
        count, asked = 0, []
        for one in evidence.asked:
            mine = isinstance(one.request, dict) and kind in one.request
            count += mine
            if not mine or count <= keep:
                asked.append(one)
        return replace(evidence, asked=tuple(asked))

    return with_rank(run, rank, change)


def test_inputs_are_fresh_for_every_seed():
    first, other = (CHECK.inputs(seed, 4)[0]["served"][0]["x"] for seed in (1, 2))
    assert first.shape != other.shape or not torch.equal(first, other)


def test_a_good_run_passes(good):
    assert [judge(good) for judge in (GRADIENTS, LOSS, MESSAGES, ORDER)] == [None] * 4


def test_no_rank_is_sent_another_ranks_factors_or_samples(good):
    sent, _ = training.serve(CHECK.inputs(1, 3))
    assert all(set(one) == {"widths", "last", "state", "wide", "steps"} for one in sent)


@pytest.mark.parametrize(
    ("shares", "hint"),
    [
        ([1.0] * 5, "scaled"),
        ([0.2] * 5, "mean_of_means"),
        ([3.0, 3.0, 3.0, 3.0, 2.0], "sum"),
        ([0.0, 0.0, 0.0, 0.0, 1.0], "accumulate"),
        ([0.3, 0.3, 0.2, 0.1, 0.1], "parity"),
    ],
)
def test_wrong_gradients_are_explained(good, shares, hint):
    step = good.expected["steps"][0]
    problem = GRADIENTS(with_gradients(good, 0, 1, step.mixed(1, shares)))
    assert problem.hint == hint


def test_a_rank_without_gradients_is_named(good):
    problem = GRADIENTS(with_gradients(good, 1, 0, {}))
    assert problem.hint == "sent_back"
    assert "rank 0" in problem.message


def test_the_expected_loss_is_in_no_message(good):
    def change(evidence):
        return replace(evidence, value={**evidence.value, "losses": [1.0, 1.0, 1.0]})

    problem = LOSS(with_rank(good, 1, change))
    assert problem.expected
    assert problem.expected not in problem.message


def test_a_pass_that_was_not_made_is_missed(good):
    assert ORDER(without_requests(good, 1, "forward", 4)).hint == "passes"
    assert ORDER(without_requests(good, 0, "backward", 4)).hint == "passes"


def test_a_pass_of_other_numbers_is_none(good):
    def change(evidence):
        asked = [
            replace(one, request={"forward": torch.randn_like(one.request["forward"])})
            if isinstance(one.request, dict) and "forward" in one.request
            else one
            for one in evidence.asked
        ]
        return replace(evidence, asked=tuple(asked))

    assert ORDER(with_rank(good, 1, change)).hint == "passes"


def test_the_factors_of_a_backward_pass_are_for_its_gradient_alone():
    ranks = CHECK.inputs(3, 2)
    step = training.serial(ranks)[0][0]
    _, reply = training.serve(ranks)
    rows = list(step.parts[0])
    reply(1, "step")
    (forward,) = reply(1, {"forward": step.entering[1][rows]})
    known, factor = forward.value
    assert torch.equal(factor, step.factors[1][0][rows])
    right = step.returning[1][rows]
    (scaled,) = reply(1, {"backward": 7 * right, "of": known})
    assert torch.equal(scaled.value, step.factors[1][1][rows])
    for other in (-right, right.flip(0), torch.randn_like(right)):
        (ones,) = reply(1, {"backward": other, "of": known})
        assert torch.equal(ones.value, torch.ones(()))


def test_nothing_is_served_between_steps():
    _, reply = training.serve(CHECK.inputs(3, 2))
    with pytest.raises(ValueError, match="within train_step"):
        reply(0, {"forward": torch.zeros(3, 3)})
    reply(0, "step")
    with pytest.raises(ValueError, match="within train_step"):
        reply(0, "step")


def test_gpipe_keeps_every_micro_batch(good):
    assert most_live(order_of(good, 0)) == {0: 5, 1: 5}


def test_a_message_more_is_seen(good):
    def change(evidence):
        send = next(call for call in evidence.calls if call.operation == "send")
        return replace(evidence, calls=(*evidence.calls, send))

    assert MESSAGES(with_rank(good, 0, change)).hint == "messages"
