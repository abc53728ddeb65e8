"""Exercise ring_all_reduce: what its judges say of a good run, and of one with a change."""

import itertools
from dataclasses import replace

import pytest
import torch

from hpml.allreduce import schedule
from hpml.checks.contract import CannotJudge
from hpml.modules.m01_parallel_sgd.checks._beside import IN_A_ROW, MOST_TIMES
from hpml.modules.m01_parallel_sgd.checks._rounds import seconds
from hpml.modules.m01_parallel_sgd.checks.ring_all_reduce import CHECK, LONG, TIMED_AT
from hpml.ranks.evidence import Asked, Diagnosis

ZEROS = torch.zeros(3)
SUM, LENGTHS, RING, BYTES, TIME = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    """As on an idle machine: on a busy one there are more stages, and the ring is slow."""
    run = played(CHECK, 3, 5)
    even = run.stages["even"]
    even = replace(even, ranks=tuple(replace(r, asked=r.asked[:2]) for r in even.ranks))
    took = max(seconds(even)[0], run.inputs["even"][0]["bound"])
    return with_bound(replace(run, stages={"even": even, "odd": run.stages["odd"]}), took)


@pytest.fixture
def on_links(good):
    """The same, where this machine has an emulated network."""
    if good.stages["even"].link is None:
        pytest.skip(f"no emulated network: {good.stages['even'].no_link}")
    return good


def with_bound(run, seconds):
    """The run with another time that its bytes need."""
    even = [{**rank, "bound": seconds} for rank in run.inputs["even"]]
    return replace(run, inputs={**run.inputs, "even": even})


@pytest.fixture
def with_tensor(with_ranks):
    """`with_tensor(run, stage, name, change)`: rank 1's tensor afterwards, changed."""

    def changed(run, stage, name, change):
        def of_rank(rank):
            if rank.rank != 1:
                return rank
            value = dict(rank.value)
            after = value["after"] if stage == "even" else value
            after = {**after, name: change(after[name].clone())}
            return replace(rank, value={**value, "after": after} if stage == "even" else after)

        return with_ranks(run, of_rank, stage)

    return changed


def own_sends(calls):
    return [call for call in calls if call.operation == "send"]


def test_a_good_run_has_no_problems(good):
    problems = [claim.judge(good) for claim in CHECK.claims]
    assert [p for p in problems if not isinstance(p, CannotJudge)] == [None] * (
        3 if good.stages["even"].link is None else 5
    )


def test_lengths_are_of_all_kinds():
    for world_size in (2, 3, 4):
        inputs = CHECK.inputs(3, world_size)
        lengths = {tensor.numel() for tensor in inputs["odd"][0].values()}
        assert {0, 1, world_size + 1} < lengths
        assert max(lengths) % world_size
        evenly = [tensor.numel() % world_size for tensor in inputs["even"][0]["tensors"].values()]
        assert not any(evenly)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_no_long_tensor_is_timed_twice(world_size):
    for rank in CHECK.inputs(3, world_size)["even"]:
        rows = {tuple(row[:9].tolist()) for row in rank["long"]}
        assert len(rows) == len(rank["long"])
        assert len(rows) == 1 + IN_A_ROW * MOST_TIMES * (world_size in TIMED_AT)


def test_what_a_wrong_part_holds_leads_to_the_hint(good, with_tensor):
    ranks = [rank["tensors"]["24 elements"] for rank in good.inputs["even"]]

    def holding(values):
        def change(tensor):
            tensor[8:16] = values[8:16]
            return tensor

        return with_tensor(good, "even", "24 elements", change)

    problem = SUM(holding(ranks[0] + ranks[1]))
    assert problem.hint == "order"
    assert "elements 8 to 15 of 24 are not the sum, but rank 0's + rank 1's" in problem.message
    assert LENGTHS(holding(ranks[0])) is None
    mean = with_tensor(good, "even", "24 elements", lambda tensor: tensor / 3)
    assert SUM(mean).hint == "mean"


@pytest.mark.parametrize("element", [0, 1, LONG - 2])
def test_every_element_of_every_long_tensor_counts(good, with_ranks, element):
    def one_wrong(rank):
        last = rank.value["long"][-1].clone()
        last[element] += 1
        return replace(rank, value={**rank.value, "long": [*rank.value["long"][:-1], last]})

    problem = SUM(with_ranks(good, one_wrong, "even"))
    assert problem.hint == "order"
    assert f"elements {element} to {element} of {LONG} are not the sum" in problem.message


def test_a_wrong_tail_is_told_from_a_wrong_ring(good, with_tensor):
    name = list(good.inputs["odd"][0])[-2]

    def last_element(tensor):
        tensor[-1] += 1
        return tensor

    tail = with_tensor(good, "odd", name, last_element)
    both = with_tensor(tail, "even", "24 elements", lambda tensor: tensor.flip(0))
    assert LENGTHS(both).hint == "order"
    raised = replace(good.stages["odd"], diagnosis=Diagnosis("raised", "rank 1 raised"))
    assert LENGTHS(replace(good, stages={**good.stages, "odd": raised})).hint == "raised"


def test_rank_0_of_3_sends_and_receives_the_parts_that_the_text_names():
    transfers = [transfer for step in schedule("ring", 3).steps for transfer in step]
    assert [each.first for each in transfers if each.source == 0] == [0, 2, 1, 0]
    assert [each.first for each in transfers if each.destination == 0] == [2, 1, 0, 2]


def test_what_is_no_ring_of_messages_is_told(good, with_ranks):
    def sending_to(*peers):
        """With messages to these ranks in turn, for each rank."""

        def of_rank(rank):
            own = own_sends(rank.calls)
            to = {id(call): int(peers[rank.rank][n % 2]) for n, call in enumerate(own)}
            calls = (replace(c, peer=to.get(id(c), c.peer)) for c in rank.calls)
            return replace(rank, calls=tuple(calls))

        return with_ranks(good, of_rank, "even")

    turned = RING(sending_to("11", "00", "00"))
    assert (turned.message, turned.expected) == ("rank 1 sends to rank 0", "rank 2")
    assert RING(sending_to("22", "00", "11")).message == "rank 0 sends to rank 2"
    assert "rank 0 sends to the ranks 1 and 2" in RING(sending_to("12", "02", "01")).message
    assert RING(with_ranks(good, lambda r: replace(r, calls=()), "even")).hint == "neighbours"


def test_too_many_bytes_are_told_by_ledger_and_kernel(good, with_ranks):
    def more(nbytes):
        def of_rank(rank):
            first = own_sends(rank.calls)[0]
            more = replace(first, nbytes=nbytes)
            return replace(rank, calls=(*rank.calls, more))

        return with_ranks(good, of_rank, "even")

    assert BYTES(more(300_000)).hint == "whole"
    assert BYTES(more(250_000)).hint == "bytes"
    if good.stages["even"].link is None:
        pytest.skip(f"no emulated network: {good.stages['even'].no_link}")
    assert BYTES(more(1000)) is None

    def sent(times):
        def of_rank(rank):
            sent_bytes = int(rank.traffic.sent_bytes * times)
            return replace(rank, traffic=replace(rank.traffic, sent_bytes=sent_bytes))

        return with_ranks(good, of_rank, "even")

    assert BYTES(sent(1.3)).hint == "bytes"
    assert BYTES(sent(0.2)).hint == "half"


def stretched(rank, times):
    """The rank's evidence with `times` the seconds of its round."""
    first, after = rank.asked
    return replace(
        rank, asked=(first, replace(after, at=first.answered + times * (after.at - first.answered)))
    )


def slower(rank, times, hint):
    """The rank's evidence with `times` the seconds, and with first calls of that kind."""
    rank = stretched(rank, times)
    begun = rank.asked[0].answered
    receive, send = [call for call in rank.calls if call.issued >= begun][:2]
    assert (receive.operation, send.operation) == ("recv", "send")  # as the right answer has it
    if hint == "slow":
        return rank
    others = [call for call in rank.calls if call not in (receive, send)]
    first = replace(send, issued=begun, finished=begun + (1e-7 if hint == "turns" else 1.0))
    calls = [first, replace(receive, issued=begun + 1e-6), *others]
    return replace(rank, calls=tuple(sorted(calls, key=lambda call: call.issued)))


@pytest.mark.parametrize("hint", ["slow", "late", "turns"])
def test_seconds_are_judged_and_the_first_two_calls_say_why(on_links, with_ranks, hint):
    slow = with_ranks(on_links, lambda rank: slower(rank, 9.0, hint), "even")
    problem = TIME(slow)
    assert problem.hint == hint
    assert "the bytes that must travel" in problem.message
    assert TIME(replace(slow, delayed=True)) is None

    # The known messages took as long once: where its calls go as they should, that is not the
    # answer's fault.
    assert TIME(with_messages(slow, 0.01)).hint == hint
    assert TIME(with_messages(slow, 0.01, 0.01)).hint == hint
    busy = with_messages(slow, 0.01, 500.0)
    if hint == "slow":
        assert isinstance(TIME(busy), CannotJudge)
    else:
        assert TIME(busy).hint == hint

    # They took as long each time: that hides what calls in another order cost.
    busy = with_messages(slow, 500.0)
    if hint == "slow":
        assert TIME(busy) is None
    else:
        assert isinstance(TIME(busy), CannotJudge)


def with_messages(run, *seconds):
    """The run with known good messages that took so long, each time."""
    begun = [0.0, *itertools.accumulate(took + 1.0 for took in seconds)]
    ends = [0.0, *(begin + took for begin, took in zip(begun, seconds, strict=False))]
    asked = tuple(Asked("next", end, begin) for end, begin in zip(ends, begun, strict=True))
    even = run.stages["even"]
    known = replace(even, ranks=tuple(replace(rank, asked=asked) for rank in even.ranks))
    return replace(run, stages={**run.stages, "messages": known})


def test_who_is_slow_is_compared_with_known_messages_and_then_given_a_second_try(
    on_links, with_ranks
):
    _, messages, again, _ = CHECK.stages
    took = seconds(on_links.stages["even"])[0]
    slow = with_bound(on_links, took / 2)
    assert not messages.when(on_links.inputs, on_links.stages)
    assert messages.when(slow.inputs, slow.stages)
    assert not again.when(slow.inputs, slow.stages)
    assert not again.when(slow.inputs, with_messages(slow, took).stages)
    slow = with_messages(slow, took / 2)
    assert again.when(slow.inputs, slow.stages)
    assert TIME(slow).hint == "slow"

    def then(times, change=lambda rank: rank):
        """With a second try that took `times` as long."""
        second = with_ranks(on_links, lambda rank: stretched(change(rank), times), "even")
        return replace(slow, stages={**slow.stages, "again": second.stages["even"]})

    assert TIME(then(1.0)).hint == "slow"
    assert TIME(with_messages(then(1.0), took)) is None
    assert SUM(then(1.0)) is None
    assert SUM(then(1.0, lambda rank: replace(rank, value={**rank.value, "long": [ZEROS]})))


def test_the_shorter_time_of_two_tries_counts(on_links, with_ranks):
    slow = with_ranks(on_links, lambda rank: stretched(rank, 9.0), "even")
    slow = with_messages(slow, 0.01)
    assert TIME(slow).hint == "slow"
    assert TIME(replace(slow, stages={**slow.stages, "again": on_links.stages["even"]})) is None


def test_without_a_whole_round_no_bytes_have_come_in_time(on_links, with_ranks):
    none = with_ranks(on_links, lambda rank: replace(rank, asked=()), "even")
    assert "receives less" in TIME(none).message


def test_a_wrong_second_loop_has_one_cause(good, with_tensor):
    """What a few elements show, and the time, only follow from sums that are wrong everywhere."""
    run = with_tensor(good, "even", "24 elements", lambda tensor: tensor * 0 + 5)
    run = with_tensor(run, "odd", "1 element", lambda tensor: ZEROS[:1].to(tensor.dtype))
    assert LENGTHS(run).hint == SUM(run).hint
