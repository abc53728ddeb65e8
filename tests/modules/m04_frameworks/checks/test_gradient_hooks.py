"""Exercise gradient_hooks: what its judges say of a good run, and of it with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.modules.m04_frameworks.checks._hook_calls import LATE, TIED
from hpml.modules.m04_frameworks.checks._hooked_training import (
    APART,
    FINISHED,
    MOMENTS,
    PLACES,
    STEPS,
    Net,
    frozen_bytes,
    own_gradients,
    ready_at,
    serve,
    sizes,
)
from hpml.modules.m04_frameworks.checks.gradient_hooks import CHECK, combined, swapped
from hpml.ranks.evidence import Diagnosis

MEAN, ONCE, WIRE, EARLY, WAITS, ORDER = (claim.judge for claim in CHECK.claims)


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


@pytest.fixture
def with_calls(good, with_ranks):
    """`with_calls(change, stage)`: the good run with `change(call)` in place of each call."""

    def changed(change, stage="train"):
        return with_ranks(good, lambda r: replace(r, calls=tuple(map(change, r.calls))), stage)

    return changed


@pytest.fixture
def with_gradients(good, with_ranks):
    """`with_gradients(change)`: with `change(gradients)` in place of each step's, on each rank."""

    def changed(change):
        return with_ranks(good, lambda r: replace(r, value=list(map(change, r.value))), "train")

    return changed


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_for_every_seed_and_rank():
    ranks = CHECK.inputs(3, 2)["train"] + CHECK.inputs(4, 2)["train"]
    tokens = {tuple(rank["batches"][0][0].tolist()) for rank in ranks}
    assert len(tokens) == len(ranks)
    assert torch.equal(ranks[0]["state"][TIED], ranks[1]["state"][TIED])
    assert not torch.equal(ranks[0]["state"][TIED], ranks[2]["state"][TIED])


def test_the_order_of_the_branches_changes_no_gradient():
    (given,) = CHECK.inputs(6, 1)["train"]
    turned = [[x, y, sides[::-1], factors] for x, y, sides, factors in given["batches"]]
    for one, other in zip(
        own_gradients(given), own_gradients({**given, "batches": turned}), strict=True
    ):
        for name, tensor in one.items():
            torch.testing.assert_close(tensor, other[name], rtol=1e-12, atol=1e-12)


def test_what_backward_has_computed_at_each_place_is_ready_and_no_more():
    """Hooks of PyTorch's own count the bytes that are complete when a factor is asked for."""
    net, seen, done = Net(), {}, []
    for parameter in net.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda p: done.append(p.nbytes))

    def factor(place):
        seen[place] = sum(done)
        return torch.ones(())

    net.factor = factor
    net(torch.arange(4), ["left", "right"]).sum().backward()
    assert seen == ready_at()
    assert list(seen) == list(PLACES)
    assert sum(done) == sum(sizes().values())


def test_mixed_branches_add_up_to_all_gradients(good):
    own = [ranks[APART] for ranks in good.expected]
    for side in ("left", "right"):
        both = sum(swapped(good, rank, APART)[f"{side}.weight"] for rank in (0, 1))
        total = combined(own, 1.0)
        torch.testing.assert_close(both, (total["left.weight"] + total["right.weight"]) / 2)


@pytest.mark.parametrize(("factor", "hint"), [(2.0, "sum"), (0.5, "twice"), (3.0, "mean")])
def test_wrong_divisors_are_told_apart_and_leave_the_other_claims(with_gradients, factor, hint):
    changed = with_gradients(lambda grads: {n: factor * tensor for n, tensor in grads.items()})
    assert MEAN(changed).hint == ORDER(changed).hint == hint
    assert (EARLY(changed) is None) == (hint != "mean")
    assert ONCE(changed) is None


def test_messages_that_are_on_their_way_when_finish_returns_are_lost(with_gradients, with_ranks):
    wrong = with_gradients(lambda grads: {name: 0.9 * tensor for name, tensor in grads.items()})

    def late(rank):
        times = [mark.at for mark in rank.marks if mark.name == FINISHED]
        last = rank.calls[-1]
        changed = replace(last, finished=times[-1] + 1e-6, issued=times[0] - 1e-6)
        return replace(rank, calls=(*rank.calls[:-1], changed))

    assert MEAN(wrong).hint == "mean"
    assert MEAN(with_ranks(wrong, late, "train")).hint == "lost"


@pytest.mark.parametrize(
    "change",
    [
        lambda grads: {**grads, "shift": grads["shift"] + 1e-3},
        lambda grads: {**grads, "shift": grads["shift"].float()},
        lambda grads: {**grads, "shift": grads["shift"] * torch.nan},
        lambda grads: {**grads, "shift": None},
        lambda grads: {name: grad for name, grad in grads.items() if name != "shift"},
    ],
)
def test_whatever_is_wrong_with_one_gradient_is_found(with_gradients, change):
    problem = MEAN(with_gradients(change))
    assert "shift" in problem.message
    assert problem.hint in CHECK.hints


@pytest.mark.parametrize("value", [None, [], [None] * STEPS, {"a": 1}, [[1]] * STEPS])
def test_what_is_no_list_of_gradients_is_reported(good, with_ranks, value):
    changed = with_ranks(good, lambda rank: replace(rank, value=value), "train")
    for judge_it in (MEAN, EARLY, WAITS, ORDER):
        assert judge_it(changed).hint == "mean"


def test_bytes_are_told_apart(with_calls):
    def heavier(more):
        largest = max(sizes().values())
        return with_calls(
            lambda call: replace(call, nbytes=call.nbytes + more * (call.nbytes == largest))
        )

    assert ONCE(heavier(0)) is None
    assert ONCE(heavier(sizes()[TIED])).hint == "tied"
    assert ONCE(heavier(frozen_bytes())).hint == "frozen"
    assert ONCE(heavier(-8)).hint == "bytes"
    assert ONCE(heavier(30_000)).hint == "bytes"
    assert EARLY(heavier(30_000)).hint == "bytes"
    assert EARLY(heavier(frozen_bytes())) is None


@pytest.mark.parametrize(("more", "held"), [(0, True), (30_000, True), (400_000, False)])
def test_the_wire_is_counted_by_the_kernel(good, with_ranks, more, held):
    def of_rank(rank):
        traffic = rank.traffic
        return replace(rank, traffic=replace(traffic, sent_bytes=traffic.sent_bytes + more))

    problem = WIRE(with_ranks(good, of_rank, "train"))
    assert (problem is None) == held
    assert held or problem.hint == "wire"


@pytest.mark.parametrize("place", PLACES)
def test_what_leaves_after_its_place_is_late(good, with_ranks, place):
    def late(rank):
        at = next(asked.at for asked in rank.asked if asked.request == place)
        bias = sizes()["left.bias"]
        *_, smallest = (c for c in rank.calls if c.issued < at and c.nbytes == bias)
        moved = replace(smallest, issued=at + 1e-9)
        return replace(rank, calls=tuple(moved if c is smallest else c for c in rank.calls))

    problem = EARLY(with_ranks(good, late, "train"))
    assert problem.hint == "after_backward"
    assert f"`{place}`" in problem.message


def test_what_leaves_between_two_steps_is_the_steps_before(good, with_ranks):
    """A rank could send zeros during backward, and gradients when the step is over."""

    def again(rank):
        over = next(each.at for each in rank.asked if each.request == "finished")
        first = [c for c in rank.calls if c.issued < over]
        return replace(rank, calls=(*rank.calls, *(replace(c, issued=over + 1e-9) for c in first)))

    run = with_ranks(good, again, "train")
    for problem in (ONCE(run), EARLY(run)):
        assert problem.hint == "bytes"
        assert "in step 1" in problem.message


def test_messages_to_nobody_are_none(good, with_ranks):
    def alone(rank):
        return replace(rank, calls=tuple(replace(c, group=(rank.rank,)) for c in rank.calls))

    changed = with_ranks(good, alone, "train")
    assert ONCE(changed).hint == "silent"

    def own(rank):
        return replace(rank, value=good.expected[rank.rank])

    assert MEAN(with_ranks(changed, own, "train")).hint == "silent"
    assert MEAN(with_ranks(good, own, "train")).hint == "alone"
    assert EARLY(changed).hint == "after_backward"


def test_a_rank_that_does_not_go_on_without_the_late_one_waits(good):
    for kind, hint in (("hang", "waiting"), ("limit", "waiting"), ("mismatch", "mismatch")):
        stopped = replace(good.stages[LATE], diagnosis=Diagnosis(kind, "rank 0 waits"))
        run = replace(good, stages={**good.stages, LATE: stopped})
        assert WAITS(run).hint == hint
        assert "rank 0 waits" in WAITS(run).message
        assert EARLY(run) is None


def test_a_wait_that_ends_by_itself_is_one(with_calls):
    waited = with_calls(lambda call: replace(call, waited=call.issued))
    assert WAITS(waited).hint == "waiting"
    assert EARLY(waited) is None


def test_what_leaves_late_while_a_rank_is_held_up_does_not_count(with_calls):
    late = with_calls(lambda call: replace(call, nbytes=0), stage=LATE)
    assert WAITS(late).hint == "after_backward"
    assert EARLY(late) is None


def test_the_drives_requests_are_refused_to_whoever_comes_first():
    _, reply = serve(CHECK.inputs(3, 1)["train"])
    for _ in range(STEPS):
        for moment in MOMENTS:
            for other in {*MOMENTS, "weights"} - {moment}:
                with pytest.raises(ValueError, match="there is no"):
                    reply(0, other)
            assert [one.rank for one in reply(0, moment)] == [0]
    with pytest.raises(ValueError, match="there is no"):
        reply(0, "batch")


@pytest.mark.parametrize("world_size", [2, 3])
def test_the_late_rank_goes_on_when_all_others_have_come_to_the_last_place(world_size):
    ranks = CHECK.inputs(3, world_size)[LATE]
    late = ranks[0]["late"]
    _, reply = serve(ranks)
    assert reply(late, "batch")
    assert reply(late, PLACES[0]) == []
    for rank in set(range(world_size)) - {late}:
        assert [one.rank for one in reply(rank, "batch")] == [rank]
        for place in PLACES[:-1]:
            assert [one.rank for one in reply(rank, place)] == [rank]
        answered = [one.rank for one in reply(rank, PLACES[-1])]
    assert answered == [rank, late]
    assert [one.rank for one in reply(late, PLACES[1])] == [late]


def test_who_is_late_is_another_rank_with_another_seed():
    assert {CHECK.inputs(seed, 2)[LATE][0]["late"] for seed in range(20)} == {0, 1}
