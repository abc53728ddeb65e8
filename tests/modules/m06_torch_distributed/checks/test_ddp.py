"""Exercise ddp: what its judges say of a good run with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.compare import state_difference
from hpml.modules.m06_torch_distributed.checks._wrapped_training import (
    AGAIN,
    BATCH,
    FLOAT32_AT,
    LEARNING_RATES,
    PLACES,
    REFUSED,
    STEPS,
    WIDTH,
    serial,
    serve,
)
from hpml.modules.m06_torch_distributed.checks.ddp import (
    CHECK,
    FLOAT32_TOLERANCE,
    STAGE_1,
    STAGE_2,
    sent_much,
)
from hpml.ranks.evidence import Diagnosis

JUDGES = [claim.judge for claim in CHECK.claims]
START, _, BIG_BATCH, UNUSED, TWICE, ONCE, WIRE, FEW, OVERLAP = JUDGES

EMBEDDING, FROZEN = 256 * 48 * 8, (48 + 1) * 48 * 8  # bytes


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


@pytest.fixture
def changed(good, with_ranks):
    """`changed(change)`: the good run with `change(rank evidence)` for each rank's evidence."""
    return lambda change: with_ranks(good, change, "one model")


@pytest.fixture
def with_calls(changed):
    """`with_calls(nbytes=3, …)`: with these fields in each rank's calls."""
    return lambda **fields: changed(
        lambda rank: replace(rank, calls=tuple(replace(c, **fields) for c in rank.calls))
    )


@pytest.fixture
def heavier(changed):
    """`heavier(more)`: in each step, the call with the embedding's gradient has more bytes."""

    def made(more):
        def of_rank(rank):
            added = (more if call.nbytes == EMBEDDING else 0 for call in rank.calls)
            pairs = zip(rank.calls, added, strict=True)
            return replace(rank, calls=tuple(replace(c, nbytes=c.nbytes + n) for c, n in pairs))

        return changed(of_rank)

    return made


@pytest.fixture
def with_more(with_ranks):
    """`with_more(run, n, stage)`: with n bytes more on each rank's link."""

    def made(run, more, stage="one model"):
        def of_rank(rank):
            traffic = replace(rank.traffic, sent_bytes=rank.traffic.sent_bytes + more)
            return replace(rank, traffic=traffic)

        return with_ranks(run, of_rank, stage)

    return made


def test_inputs_differ_between_ranks_and_seeds():
    ranks = CHECK.inputs(3, 2)["one model"] + CHECK.inputs(4, 2)["one model"]
    weights = [rank["state"]["left.weight"] for rank in ranks]
    assert not any(torch.equal(weights[0], other) for other in weights[1:])
    assert len({tuple(rank["batches"][0][0].tolist()) for rank in ranks}) == len(ranks)


def test_the_mean_gradient_of_shares_is_that_of_the_whole_batch():
    ranks = CHECK.inputs(6, 4)["one model"]
    start = ranks[0]["state"]
    shares = [rank["batches"][0] for rank in ranks]
    factors = {place: torch.cat([share[3][place] for share in shares]) for place in PLACES}
    whole = [torch.cat([share[n] for share in shares]) for n in (0, 1)] + ["both", factors]
    (apart,), (together,) = serial(start, [shares], 4), serial(start, [[whole]], 1)
    for name, tensor in apart.items():
        torch.testing.assert_close(tensor, together[name], rtol=1e-9, atol=1e-12)


def in_float64(value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: in_float64(one) for key, one in value.items()}
    return [in_float64(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(4))
def test_in_float32_rounding_is_far_below_the_tolerance(seed, monkeypatch):
    monkeypatch.setitem(LEARNING_RATES, torch.float64, LEARNING_RATES[torch.float32])
    (world_size,) = FLOAT32_AT
    given = CHECK.inputs(seed, world_size)
    rounded, exact = (
        CHECK.expect(each, world_size)["two branches"] for each in (given, in_float64(given))
    )
    for got, due in zip(
        (*rounded["after"], *rounded["sums"]), (*exact["after"], *exact["sums"]), strict=True
    ):
        assert state_difference(in_float64(got), due, FLOAT32_TOLERANCE / 5) is None
    assert state_difference(*rounded["sums"], 100 * FLOAT32_TOLERANCE), "a lost backward is seen"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weight: weight + 1e-3, "differs by up to"),
        (lambda weight: weight.float(), "is float32"),
        (lambda weight: weight[:1], "has shape (1, 48)"),
        (lambda weight: None, "is None"),
        (lambda weight: weight * torch.nan, "not finite"),
        (None, "is missing"),
    ],
)
def test_whatever_is_wrong_with_a_weight_is_said(good, with_value, change, words):
    def of_state(state):
        weight = "left.weight"
        rest = {name: tensor for name, tensor in state.items() if name != weight}
        return rest if change is None else rest | {weight: change(state[weight])}

    def at_start(value):
        return value | {"start": of_state(value["start"])}

    def at_the_end(value):
        return value | {"after": [*value["after"][:-1], of_state(value["after"][-1])]}

    for of_value, judge_it in ((at_start, START), (at_the_end, BIG_BATCH)):
        problem = judge_it(with_value(good, 1, of_value, "one model"))
        assert "left.weight" in problem.message
        assert words in problem.message
        assert problem.hint in CHECK.hints


@pytest.mark.parametrize(("more", "hint"), [(64, None), (-8, "bytes"), (5000, "bytes")])
def test_a_message_may_be_rounded_up_by_little(heavier, more, hint):
    problem = ONCE(heavier(more))
    assert (problem and problem.hint) == hint


def test_messages_to_nobody_or_none_at_all_carry_no_gradients(changed):
    def alone(rank):
        return replace(rank, calls=tuple(replace(c, group=(rank.rank,)) for c in rank.calls))

    for change in (alone, lambda rank: replace(rank, calls=())):
        run = changed(change)
        assert "nothing yet" in OVERLAP(run).message
        assert FEW(run).hint == "alone"
        assert ONCE(run).hint == "bytes"


def test_a_large_message_with_too_many_bytes_is_not_one_bucket(with_calls):
    assert FEW(with_calls(nbytes=200_000)).hint == "bytes"


def asked_at(rank, name):
    return [asked.at for asked in rank.asked if asked.request == name]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_backward_never_reached_is_another_modules(changed, place):
    def unreached(rank):
        return replace(rank, asked=tuple(a for a in rank.asked if a.request != place))

    assert OVERLAP(changed(unreached)).hint == "unchanged"


def test_a_token_that_leaves_early_is_no_overlap(changed):
    def tokens(rank):
        # What follows the last moment of the last step does not matter.
        last = max(asked_at(rank, "last"))
        small = (replace(c, nbytes=8) if c.issued < last else c for c in rank.calls)
        return replace(rank, calls=tuple(small))

    assert "gradients of 75264 bytes were ready" in OVERLAP(changed(tokens)).message


def test_what_leaves_between_the_middle_and_the_last_parameter_counts(changed):
    def only_the_first(rank):
        between = list(zip(asked_at(rank, "middle"), asked_at(rank, "last"), strict=True))

        def moved(call):
            behind = [last for middle, last in between if middle < call.issued < last]
            return replace(call, issued=behind[0] + 1e-9) if behind else call

        return replace(rank, calls=tuple(moved(call) for call in rank.calls))

    problem = OVERLAP(changed(only_the_first))
    assert "came to the last parameter; gradients of 131712 bytes were ready" in problem.message


def test_a_factor_that_is_asked_for_when_backward_is_over_is_no_overlap(changed):
    def later(rank):
        overs = iter(asked_at(rank, "backward"))
        asked = (
            replace(a, at=next(overs) + 1e-9) if a.request == "last" else a for a in rank.asked
        )
        return replace(rank, asked=tuple(asked))

    assert "when backward was over" in OVERLAP(changed(later)).message


@pytest.mark.parametrize(("more", "held"), [(FROZEN, True), (30_000, False)])
def test_more_than_each_gradient_once_may_be_for_show(heavier, more, held):
    problem = OVERLAP(heavier(more))
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
    assert (UNUSED(run).message, UNUSED(run).hint) == ("they differ", "mismatch")
    assert BIG_BATCH(run) is None


def test_a_second_backward_adds_up_or_is_refused_and_is_not_lost(good, with_value):
    """Lost altogether: see the wrong answer second_backward_lost."""
    first, both = good.expected["two branches"]["sums"]
    mixed = both | {"left.weight": first["left.weight"]}
    for together, words in (
        (both, None),
        (REFUSED, None),
        (first, "means of the first backward() alone"),
        (mixed, "are not the means of both together: left.weight differs"),
        ("IndexError: list index out of range", "no RuntimeError but IndexError: list index"),
    ):
        run = with_value(good, 1, lambda v, new=together: v | {"together": new}, "two branches")
        problem = TWICE(run)
        assert (problem and problem.hint) == (words and "twice")
        assert words is None or words in problem.message


@pytest.mark.parametrize(("more", "held"), [(100_000, True), (400_000, False)])
def test_the_wire_is_counted_by_the_kernel(good, with_more, more, held):
    problem = WIRE(with_more(good, more))
    assert (problem is None) == held
    assert held or problem.hint == "wire"


def test_a_wire_that_carried_too_much_once_is_measured_again(good, with_more):
    assert not sent_much(good.inputs, good.stages)
    much = with_more(good, 900_000)
    assert sent_much(much.inputs, much.stages)
    again = replace(much, stages={**much.stages, AGAIN: good.stages["one model"]})
    assert WIRE(again) is None
    assert WIRE(with_more(again, 900_000, AGAIN)).hint == "wire"


def test_the_second_measurement_is_of_an_answer_that_is_right_there(good, with_more):
    ranks = [
        replace(rank, value={**rank.value, "after": rank.value["after"][:1] * STEPS})
        for rank in good.stages["one model"].ranks
    ]
    lazy = replace(good.stages["one model"], ranks=tuple(ranks))
    much = with_more(good, 900_000)
    assert WIRE(replace(much, stages={**much.stages, AGAIN: lazy})).hint == "parity"
    hung = replace(lazy, diagnosis=Diagnosis("hang", "rank 0 waits"))
    assert WIRE(replace(much, stages={**much.stages, AGAIN: hung})).hint == "hang"


def test_half_the_points_are_for_a_plain_average():
    """That one stops at the first claim of stage 2: see the wrong answer plain_average."""
    of_stage_1, of_stage_2 = (sum(claim.points for claim in stage) for stage in (STAGE_1, STAGE_2))
    assert of_stage_1 == of_stage_2


PLAIN = """
import torch.distributed as dist
from torch import nn

class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)

    def synchronize(self):
        for parameter in self.parameters():
            dist.all_reduce(parameter.grad)
"""


def test_the_picture_shows_how_many_buckets_leave_beside_backward(solution, monkeypatch):
    from hpml.trace import launch_timeline

    titles, draw = [], launch_timeline.timeline
    monkeypatch.setattr(
        launch_timeline, "timeline", lambda *a, title: titles.append(title) or draw(*a, title=title)
    )
    for answer in (solution("ddp"), PLAIN):
        assert CHECK.picture(CHECK, answer).png.startswith(b"\x89PNG")
    assert titles == [
        "3 of 3 buckets leave while backward is at work, and it waits for none of them",
        "0 of 12 buckets leave while backward is at work, and it waits for none of them",
    ]
    with pytest.raises(ValueError, match="raised AttributeError"):
        CHECK.picture(CHECK, PLAIN.replace("synchronize", "finish"))
