"""Exercise fusion_buffer: its packing rule, and what its judges say of runs that are changed."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m02_hardware.checks import _fused_picture
from hpml.modules.m02_hardware.checks._made_gradients import (
    CASES,
    LARGEST,
    inside,
    messages,
    serve,
)
from hpml.modules.m02_hardware.checks.fusion_buffer import CHECK, cases_of

MEAN, KINDS, MESSAGES, LEAVES, WIRE = (claim.judge for claim in CHECK.claims)


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_differ_between_ranks_and_seeds():
    ranks = CHECK.inputs(3, 2) + CHECK.inputs(4, 2)
    first = [rank["gradients"][0][0][0] for rank in ranks]
    assert not any(torch.equal(first[0], other) for other in first[1:])


@pytest.mark.parametrize("seed", range(5))
def test_every_difficulty_is_among_the_gradients(seed):
    rank = CHECK.inputs(seed, 1)[0]
    room = rank["buffer_bytes"]
    one, three, none, (empty,) = rank["gradients"]
    assert none == []
    assert not empty[0].numel()
    assert {base.dtype for base, _ in one} == {torch.float32}
    assert messages(one, room) != messages(one, room, full_leaves=True)
    assert messages(one, room) != messages(one, room, equal_is_large=True)
    assert len(messages(one, room)["float32"]) >= 4
    assert {base.dtype for base, _ in three} == set(LARGEST)
    assert {layout for _, layout in three} == {"whole", "transposed", "columns"}
    assert {base.dim() for base, _ in three} == {0, 1, 2}
    assert sum(not base.numel() for base, _ in three) == 2
    assert sum(inside(*each).nbytes > room for each in three) >= 2
    assert messages(three, room) != messages(three, room, large_closes=True)
    assert messages(three, room) != messages(three, room, dtype_closes=True)
    assert full_and_alone(three, room)


def full_and_alone(gradients, room):
    """The messages of a full buffer after which three gradients or more have other dtypes."""
    dtypes = [base.dtype for base, _ in gradients]
    return [
        message
        for message in messages(gradients, room)["float32"]
        if message.nbytes == room
        and torch.float32 not in dtypes[message.leaves_with + 1 : message.leaves_with + 4]
    ]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_sums_and_means_are_exact_in_every_dtype(world_size):
    ranks = CHECK.inputs(7, world_size)
    for number, (base, _) in enumerate(ranks[0]["gradients"][1]):
        bases = [rank["gradients"][1][number][0] for rank in ranks]
        exact = sum(each.double() for each in bases) / world_size
        total = torch.zeros_like(base)
        for each in reversed(bases):
            total += each
        assert torch.equal((total / world_size).double(), exact)
        assert torch.equal(sum(each / world_size for each in bases).double(), exact)


@given(st.lists(st.integers(0, 60), max_size=30), st.integers(8, 100))
def test_the_rule_fills_buffers_in_order(elements, room):
    gradients = [[torch.zeros(n), "whole"] for n in elements]
    found = messages(gradients, room).get("float32", [])
    large = [m for m in found if m.nbytes > room]
    packed = [m for m in found if m.nbytes <= room]
    assert all(len(message.gradients) == 1 for message in large)
    assert sum(message.nbytes for message in found) == 4 * sum(elements)
    order = [n for message in packed for n in message.gradients]
    assert order == sorted(order)
    for this, following in itertools.pairwise(packed):
        if this.nbytes == room:
            assert this.leaves_with == this.gradients[-1]
        else:
            assert this.nbytes + 4 * elements[following.gradients[0]] > room
            assert this.leaves_with == following.gradients[0]
    for last in packed[-1:]:
        assert last.leaves_with == (last.gradients[-1] if last.nbytes == room else None)


def test_gradients_are_served_once_and_in_order():
    ranks = CHECK.inputs(1, 1)
    given_, reply = serve(ranks)
    assert "gradients" not in given_[0]
    for case in ranks[0]["gradients"]:
        for base, _ in case:
            (answered,) = reply(0, "gradient")
            assert answered.value[0] is base
        assert reply(0, "gradient")[0].value is None
        reply(0, "averaged")
    with pytest.raises(ValueError, match="there is no"):
        reply(0, "gradient")


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda calls: (), "alone"),
        (lambda calls: calls[1:], "bytes"),
        (lambda calls: tuple(replace(call, nbytes=2 * call.nbytes) for call in calls), "bytes"),
        (lambda calls: (replace(calls[0], operation="all_reduce_coalesced"),), "messages"),
    ],
)
def test_other_messages_than_the_rules_are_a_problem(good, with_ranks, change, hint):
    run = with_ranks(good, lambda rank: replace(rank, calls=change(rank.calls)))
    assert MESSAGES(run).hint == LEAVES(run).hint == hint


def test_a_message_that_leaves_two_gradients_late_is_late(good, with_ranks):
    rule = messages(good.inputs[0]["gradients"][0], good.inputs[0]["buffer_bytes"])
    number = rule["float32"][0].leaves_with

    def moved(gradients):
        """The first message leaves just after so many gradients more were asked for."""

        def of_rank(rank):
            at = rank.asked[number + gradients].at + 1e-6
            first = replace(rank.calls[0], issued=at, waited=None)
            return replace(rank, calls=(first, *rank.calls[1:]))

        return with_ranks(good, of_rank)

    assert LEAVES(moved(1)) is None
    assert LEAVES(moved(2)).hint == "late"
    assert MESSAGES(moved(2)) is None


def test_a_full_buffer_does_not_wait_for_its_dtype(good, with_ranks):
    room = good.inputs[0]["buffer_bytes"]
    message = full_and_alone(good.inputs[0]["gradients"][1], room)[0]

    def waits(rank):
        taken = list(cases_of(rank))[1]
        call = next(c for c in taken.calls if (c.dtype, c.nbytes) == ("float32", room))
        late = replace(call, issued=taken.asked[message.leaves_with + 3] + 1e-6, waited=None)
        calls = sorted((late if c is call else c for c in rank.calls), key=lambda c: c.issued)
        return replace(rank, calls=tuple(calls))

    changed = with_ranks(good, waits)
    assert LEAVES(changed).hint == "full"
    assert MESSAGES(changed) is None


def test_whatever_is_wrong_with_a_gradient_is_named(good, with_value):
    def changed(case, number, change):
        def of_value(value):
            value = [list(each) for each in value]
            value[case][number] = change(value[case][number])
            return value

        return with_value(good, 1, of_value)

    for change, words in (
        (lambda t: t + 1, "differs by up to"),
        (lambda t: t.double(), "is float64"),
        (lambda t: t[:1], "has shape (1,)"),
        (lambda t: None, "is None"),
        (lambda t: t * torch.nan, "not finite"),
    ):
        problem = MEAN(changed(0, 3, change))
        assert words in problem.message
        assert problem.hint in CHECK.hints
        assert KINDS(changed(0, 3, change)) is None
        assert MEAN(changed(1, 0, change)) is None
        assert KINDS(changed(1, 0, change)) is not None


def test_what_lies_between_a_strided_gradients_elements_is_compared(good, with_value):
    given_ = good.inputs[1]["gradients"][1]
    number = next(n for n, (_, layout) in enumerate(given_) if layout == "columns")

    def of_value(value):
        value = [list(each) for each in value]
        value[1][number] = value[1][number].clone()
        value[1][number][:, 1] += 12
        return value

    assert KINDS(with_value(good, 1, of_value)).hint == "strides"


def test_a_rank_that_left_out_cases_is_not_judged(good, with_value):
    with pytest.raises(ValueError, match="other cases"):
        MEAN(with_value(good, 1, lambda value: value[: len(CASES) - 1]))


@pytest.fixture(scope="module")
def launched():
    """The picture's launches, one for each source."""
    launched, known = _fused_picture.launched, {}

    def once(check, source, ranks):
        if source not in known:
            known[source] = launched(check, source, ranks)
        return known[source]

    return once


def test_the_picture_is_that_of_the_answer(solution, launched, monkeypatch):
    monkeypatch.setattr(_fused_picture, "launched", launched)
    source = solution("fusion_buffer")
    assert CHECK.picture(CHECK, source).png.startswith(b"\x89PNG")
    late = source.replace("in gradients:", "in list(gradients):")
    assert CHECK.picture(CHECK, late).words.endswith(" 0 of them left while backward went on")
    with pytest.raises(ValueError, match="did not return"):
        CHECK.picture(CHECK, "%%answer fusion_buffer\naverage = None\n")


@pytest.mark.parametrize("reason", ["", "no network namespaces"])
def test_the_picture_has_the_seconds_over_a_link_beside_one_message_for_each_gradient(
    solution, launched, monkeypatch, reason
):
    sent, shown = [], []

    def over_a_link(check, source, ranks):
        evidence = launched(check, source, ranks)
        begin, end = (evidence.ranks[0].asked[n].at for n in _fused_picture.bounds(evidence))
        calls = [call for call in evidence.ranks[0].calls if begin <= call.issued <= end]
        sent.append(sum(call.nbytes > 0 for call in calls))
        return replace(evidence, no_link=reason)

    monkeypatch.setattr(_fused_picture, "launched", over_a_link)
    monkeypatch.setattr(
        _fused_picture, "beside_one_by_one", lambda *both: shown.append(both) or "both times"
    )
    picture = CHECK.picture(CHECK, solution("fusion_buffer"))
    few, many = sent
    assert 2 * few < many
    assert all(took > 0 for both in shown for took in both)
    assert len(shown) == (not reason)
    assert "time" not in picture.words  # they are another each time


def test_seconds_are_told_apart():
    assert _fused_picture.beside_one_by_one(0.0204, 0.0581).endswith(
        "link of 1 Gbit/s: 20 ms; with one message for each gradient: 58 ms"
    )
