"""Exercise ddp: what its judges say of a good run, and of the same run with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.checks import judge
from hpml.checks.m06_torch_distributed._wrapped_training import (
    AGAIN,
    BATCH,
    PLACES,
    STEPS,
    WIDTH,
    serial,
    serve,
)
from hpml.checks.m06_torch_distributed.ddp import CHECK, STAGE_1, STAGE_2, sent_much
from hpml.checks.plays import play_once
from hpml.course import schedule, wrong_answers
from hpml.ranks.evidence import Diagnosis

JUDGES = [claim.judge for claim in CHECK.claims]
START, BUFFERS, BIG_BATCH, UNUSED, ONCE, WIRE, FEW, OVERLAP = JUDGES

EMBEDDING, FROZEN = 256 * 48 * 8, (48 + 1) * 48 * 8  # bytes


@pytest.fixture(scope="module")
def good(solution):
    source = solution("ddp").replace("%%answer", "#", 1)
    run, fault = play_once(CHECK, source, world_size=2, seed=5)
    assert fault is None
    return run


def with_ranks(run, change, stage="one model"):
    """The run with `change(rank evidence)` in place of each rank's evidence in a stage."""
    evidence = run.stages[stage]
    changed = replace(evidence, ranks=tuple(change(rank) for rank in evidence.ranks))
    return replace(run, stages={**run.stages, stage: changed})


def with_calls(run, change):
    """The run with `change(call)` in place of each gradient's call; None leaves it out."""

    def of_rank(rank):
        calls = (change(c) if c.operation == "all_reduce" else c for c in rank.calls)
        return replace(rank, calls=tuple(call for call in calls if call is not None))

    return with_ranks(run, of_rank)


def with_state(run, part, change):
    """The run with rank 1's state at the start, or after the last step, changed."""

    def of_rank(rank):
        if rank.rank != 1:
            return rank
        value = {"start": dict(rank.value["start"]), "after": [*rank.value["after"]]}
        if part == "start":
            value["start"] = change(value["start"])
        else:
            value["after"][-1] = change(dict(value["after"][-1]))
        return replace(rank, value=value)

    return with_ranks(run, of_rank)


@pytest.mark.parametrize("seed", [1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("ddp", solution("ddp"), seed=seed)
    assert verdict.passed, verdict


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_differ_between_ranks_and_seeds():
    ranks = CHECK.inputs(3, 2)["one model"] + CHECK.inputs(4, 2)["one model"]
    weights = [rank["state"]["left.weight"] for rank in ranks]
    assert not any(torch.equal(weights[0], other) for other in weights[1:])
    assert len({tuple(rank["batches"][0][0].tolist()) for rank in ranks}) == len(ranks)


def test_the_mean_gradient_of_shares_is_that_of_the_whole_batch():
    ranks = CHECK.inputs(6, 3)["one model"]
    start = ranks[0]["state"]
    shares = [rank["batches"][0] for rank in ranks]
    factors = {place: torch.cat([share[3][place] for share in shares]) for place in PLACES}
    whole = [torch.cat([share[n] for share in shares]) for n in (0, 1)] + ["both", factors]
    (apart,), (together,) = serial(start, [shares], 3), serial(start, [[whole]], 1)
    for name, tensor in apart.items():
        torch.testing.assert_close(tensor, together[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state | {"left.weight": state["left.weight"] + 1e-3}, "differs by up to"),
        (lambda state: state | {"left.weight": state["left.weight"].float()}, "is float32"),
        (lambda state: state | {"left.weight": state["left.weight"][:1]}, "has shape (1, 48)"),
        (lambda state: state | {"left.weight": None}, "is None"),
        (lambda state: state | {"left.weight": state["left.weight"] * torch.nan}, "not finite"),
        (lambda state: {n: t for n, t in state.items() if n != "left.weight"}, "is missing"),
    ],
)
def test_whatever_is_wrong_with_a_weight_is_said(good, change, words):
    for part, judge_it in (("start", START), ("after", BIG_BATCH)):
        problem = judge_it(with_state(good, part, change))
        assert problem is not None
        assert "left.weight" in problem.message
        assert words in problem.message
        assert problem.hint in CHECK.hints


def test_a_counter_among_the_buffers_counts(good):
    changed = with_state(good, "start", lambda state: state | {"version": state["version"] + 1})
    assert START(changed) is None
    assert BUFFERS(changed).hint == "buffers"


def test_too_many_bytes_are_told_apart(good):
    def heavier(more):
        # One call of each step carries more: the one that holds the embedding.
        return with_calls(
            good, lambda c: replace(c, nbytes=c.nbytes + more) if c.nbytes == EMBEDDING else c
        )

    assert ONCE(heavier(64)) is None
    assert ONCE(heavier(EMBEDDING)).hint == "tied"
    assert ONCE(heavier(FROZEN)).hint == "frozen"
    assert ONCE(heavier(5000)).hint == "bytes"
    assert ONCE(heavier(-8)).hint == "bytes"


def test_no_message_is_too_few_and_one_per_parameter_too_many(good):
    assert FEW(with_calls(good, lambda call: None)).hint == "alone"
    assert FEW(with_calls(good, lambda call: replace(call, nbytes=200_000))).hint == "bytes"

    def more(rank):
        return replace(rank, calls=rank.calls + 3 * rank.calls)

    assert FEW(with_ranks(good, more)).hint == "messages"


def asked_at(rank, name):
    return [asked.at for asked in rank.asked if asked.request == name]


@pytest.mark.parametrize("place", PLACES)
def test_late_messages_are_no_overlap(good, place):
    def late(rank):
        begin = asked_at(rank, "batch")[0]

        def after_the_place(call):
            ahead = [at for at in asked_at(rank, place) if at > call.issued > begin]
            overs = [at for at in asked_at(rank, "backward") if at > call.issued]
            in_this_step = ahead and ahead[0] < overs[0]
            return replace(call, issued=ahead[0] + 1e-9) if in_this_step else call

        return replace(rank, calls=tuple(after_the_place(call) for call in rank.calls))

    def unreached(rank):
        return replace(rank, asked=tuple(a for a in rank.asked if a.request != place))

    def tokens(rank):
        # What follows the last moment of the last step is no matter.
        last = max(asked_at(rank, "last"))
        small = (replace(c, nbytes=8) if c.issued < last else c for c in rank.calls)
        return replace(rank, calls=tuple(small))

    assert OVERLAP(with_ranks(good, late)).hint == "late"
    assert OVERLAP(with_ranks(good, unreached)).hint == "unchanged"
    assert "gradients of 75264 bytes were ready" in OVERLAP(with_ranks(good, tokens)).message


def test_what_leaves_between_the_middle_and_the_last_parameter_counts(good):
    def only_the_first(rank):
        firsts = asked_at(rank, "middle")
        lasts = asked_at(rank, "last")

        def moved(call):
            behind = [
                at for first, at in zip(firsts, lasts, strict=True) if first < call.issued < at
            ]
            return replace(call, issued=behind[0] + 1e-9) if behind else call

        return replace(rank, calls=tuple(moved(call) for call in rank.calls))

    problem = OVERLAP(with_ranks(good, only_the_first))
    assert "came to the last parameter; gradients of 131712 bytes were ready" in problem.message


def test_a_factor_that_is_asked_for_when_backward_is_over_is_no_overlap(good):
    def later(rank):
        overs = iter(asked_at(rank, "backward"))
        asked = (
            replace(a, at=next(overs) + 1e-9) if a.request == "last" else a for a in rank.asked
        )
        return replace(rank, asked=tuple(asked))

    assert "when backward was over" in OVERLAP(with_ranks(good, later)).message


def test_early_waits_and_messages_to_nobody_are_no_overlap(good):
    def waiting(rank):
        return replace(rank, calls=tuple(replace(c, waited=c.issued) for c in rank.calls))

    def alone(rank):
        return replace(rank, calls=tuple(replace(c, group=(rank.rank,)) for c in rank.calls))

    assert OVERLAP(with_ranks(good, waiting)).hint == "waiting"
    assert "nothing yet" in OVERLAP(with_ranks(good, alone)).message
    assert FEW(with_ranks(good, alone)).hint == "alone"
    assert ONCE(with_ranks(good, alone)).hint == "bytes"


@pytest.mark.parametrize(("more", "held"), [(0, True), (FROZEN, True), (30_000, False)])
def test_more_than_each_gradient_once_may_be_for_show(good, more, held):
    heavier = with_calls(
        good, lambda c: replace(c, nbytes=c.nbytes + more) if c.nbytes == EMBEDDING else c
    )
    problem = OVERLAP(heavier)
    assert (problem is None) == held
    assert held or problem.hint == "bytes"


def test_the_drives_requests_are_refused_to_whoever_comes_first():
    """An answer that asks in the drive's place fails, and one that asks for a factor does not."""
    _, reply = serve(CHECK.inputs(3, 1)["one model"])
    for request in ("last", "backward", "synchronized", "weights", ["batch"]):
        with pytest.raises(ValueError, match="there is no"):
            reply(0, request)
    for _ in range(STEPS):
        assert len(reply(0, "batch")[0].value) == 3
        assert reply(0, "middle")[0].value.shape == (BATCH, WIDTH)
        for request in ("batch", "synchronized"):
            with pytest.raises(ValueError, match="there is no"):
                reply(0, request)
        reply(0, "backward")
        assert reply(0, "last")[0].value.shape == (BATCH, WIDTH)
        for request in ("batch", "backward"):
            with pytest.raises(ValueError, match="there is no"):
                reply(0, request)
        reply(0, "synchronized")
    with pytest.raises(ValueError, match="there is no"):
        reply(0, "batch")


def test_a_branch_that_ends_badly_leaves_the_other_claims(good):
    bad = replace(good.stages["two branches"], diagnosis=Diagnosis("mismatch", "they differ"))
    run = replace(good, stages={**good.stages, "two branches": bad})
    assert UNUSED(run).message == "they differ"
    assert UNUSED(run).hint == "mismatch"
    assert BIG_BATCH(run) is None


@pytest.mark.parametrize(("more", "held"), [(0, True), (100_000, True), (400_000, False)])
def test_the_wire_is_counted_by_the_kernel(good, more, held):
    def of_rank(rank):
        traffic = rank.traffic
        return replace(rank, traffic=replace(traffic, sent_bytes=traffic.sent_bytes + more))

    problem = WIRE(with_ranks(good, of_rank))
    assert (problem is None) == held
    assert held or problem.hint == "wire"


def with_more(run, more, stage="one model"):
    """The run with so many more bytes on each rank's link."""
    changed = [
        replace(rank, traffic=replace(rank.traffic, sent_bytes=rank.traffic.sent_bytes + more))
        for rank in run.stages[stage].ranks
    ]
    evidence = replace(run.stages[stage], ranks=tuple(changed))
    return replace(run, stages={**run.stages, stage: evidence})


def test_a_wire_that_carried_too_much_once_is_measured_again(good):
    assert not sent_much(good.inputs, good.stages)
    much = with_more(good, 900_000)
    assert sent_much(much.inputs, much.stages)
    assert WIRE(much).hint == "wire"
    again = replace(much, stages={**much.stages, AGAIN: good.stages["one model"]})
    assert WIRE(again) is None
    assert WIRE(with_more(again, 900_000, AGAIN)).hint == "wire"


def test_the_second_measurement_is_of_an_answer_that_is_right_there(good):
    much = with_more(good, 900_000)
    ranks = [
        replace(rank, value={**rank.value, "after": rank.value["after"][:1] * STEPS})
        for rank in good.stages["one model"].ranks
    ]
    lazy = replace(good.stages["one model"], ranks=tuple(ranks))
    run = replace(much, stages={**much.stages, AGAIN: lazy})
    assert WIRE(run).hint == "parity"
    hung = replace(lazy, diagnosis=Diagnosis("hang", "rank 0 waits"))
    assert WIRE(replace(run, stages={**run.stages, AGAIN: hung})).hint == "hang"


def test_half_the_points_are_for_a_plain_average(solution):
    of_stage_1, of_stage_2 = (sum(claim.points for claim in stage) for stage in (STAGE_1, STAGE_2))
    assert of_stage_1 == of_stage_2
    course = schedule.load()
    (plain,) = [w for w in wrong_answers.read(course, "ddp") if w.name == "plain_average"]
    verdict = judge("ddp", plain.answer(solution("ddp")))
    held = [claim.name for claim in verdict.claims if claim.passed or not claim.judged]
    assert held == [claim.name for claim in STAGE_1]
    assert not any(claim.passed for claim in verdict.claims[len(STAGE_1) :])
