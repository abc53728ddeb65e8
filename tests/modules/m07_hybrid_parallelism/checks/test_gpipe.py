"""Exercise gpipe: what its judges say of a good run with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m07_hybrid_parallelism.checks import _pipelined_training as training
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_claims import most_live, order_of
from hpml.modules.m07_hybrid_parallelism.checks.gpipe import CHECK
from hpml.predict import pipeline

GRADIENTS, LOSS, MESSAGES, ORDER = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


@pytest.fixture
def with_asked(good, with_ranks):
    """`with_asked(rank, change)`: the good run with `change(all requests)` for one rank's."""

    def made(number, change):
        def of_rank(rank):
            mine = rank.rank == number
            return replace(rank, asked=tuple(change(rank.asked))) if mine else rank

        return with_ranks(good, of_rank)

    return made


def is_pass(one, kind):
    return isinstance(one.request, dict) and kind in one.request


def test_inputs_are_fresh_for_every_seed():
    first, other = (CHECK.inputs(seed, 4)[0]["served"][0]["x"] for seed in (1, 2))
    assert first.shape != other.shape or not torch.equal(first, other)


def test_no_rank_is_sent_another_ranks_factors_or_samples(good):
    sent, _ = training.serve(CHECK.inputs(1, 3))
    assert all(set(one) == {"widths", "last", "state", "wide", "steps"} for one in sent)


def test_gradients_of_another_mix_of_micro_batches_are_wrong(good, with_value):
    mixed = good.expected["steps"][0].mixed(1, [0.3, 0.3, 0.2, 0.1, 0.1])

    def change(value):
        return value | {"gradients": [mixed, *value["gradients"][1:]]}

    assert GRADIENTS(with_value(good, 1, change)).hint == "parity"


def test_the_expected_loss_is_in_no_message(good, with_value):
    problem = LOSS(with_value(good, 1, lambda value: value | {"losses": [1.0, 1.0, 1.0]}))
    assert problem.expected
    assert problem.expected not in problem.message


def test_only_the_last_ranks_loss_counts(good, with_value):
    for rank, judged in ((0, None), (1, "loss")):
        run = with_value(good, rank, lambda value: value | {"losses": [9.0, 9.0, 9.0]})
        assert getattr(LOSS(run), "hint", None) == judged


def test_a_collective_is_called_not_allowed(good, with_ranks):
    def with_one(rank):
        call = replace(rank.calls[0], operation="all_reduce", line=47)
        return replace(rank, calls=(*rank.calls, call))

    problem = MESSAGES(with_ranks(good, with_one))
    assert problem.message == (
        "rank 0 is in all_reduce (line 47 of your answer), which is not allowed here"
    )
    # Where ranks' calls do not fit together, the engine names the call and the check has the hint
    assert "not allowed" in CHECK.hints["collective"] == CHECK.hints["mismatch"]


@pytest.mark.parametrize(("rank", "kind"), [(1, "forward"), (0, "backward")])
def test_a_pass_that_was_not_made_is_missed(with_asked, rank, kind):
    def the_first_four(asked):
        more = [one.at for one in asked if is_pass(one, kind)][4:]
        return [one for one in asked if one.at not in more]

    assert ORDER(with_asked(rank, the_first_four)).hint == "passes"


def test_a_pass_of_other_numbers_is_none(with_asked):
    def drawn(one):
        return replace(one, request={"forward": torch.randn_like(one.request["forward"])})

    def change(asked):
        return [drawn(one) if is_pass(one, "forward") else one for one in asked]

    assert ORDER(with_asked(1, change)).hint == "passes"


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


def test_the_texts_numbers_are_those_of_what_is_played():
    played = [step["sizes"] for world in (1, 4) for step in CHECK.inputs(1, world)[0]["served"]]
    assert played.count([3, 3, 2]) == 2
    live = most_live(pipeline.gpipe(4, 8))
    assert [live[rank] for rank in (0, 3)] == [8, 8]


def test_a_loss_is_a_number_or_a_tensor_of_one(good):
    assert training.as_number(torch.tensor([2.5])) == 2.5
    assert training.as_number(None) is None
    assert training.as_number("2.5") == "2.5"
    assert len(training.as_number(torch.zeros(3))) == 3


def test_gpipe_keeps_every_micro_batch(good):
    assert most_live(order_of(good, 0)) == {0: 5, 1: 5}


def test_the_order_is_drawn_where_all_ranks_return_and_not_of_those_that_hang():
    right = wrong_answers.solution(schedule.load(), "gpipe")
    assert "ranks idle for 27%" in CHECK.picture(CHECK, right).words
    hangs = right.replace("dist.send(x.grad, dst=rank - 1)", "pass")
    assert hangs != right
    with pytest.raises(ValueError, match=r"no order to draw: .*waits? in recv"):
        CHECK.picture(CHECK, hangs)
