"""Exercise naive_all_reduce: what its judges say of a good run, and of one with a change."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.contract import CannotJudge
from hpml.checks.m01_parallel_sgd.naive_all_reduce import CHECK

SUM, INPUT, MESSAGES, TRAFFIC = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 3, 5)


def with_value(run, with_ranks, rank, change):
    def of_rank(one):
        return replace(one, value=change(one.value)) if one.rank == rank else one

    return with_ranks(run, of_rank)


def test_a_good_run_has_no_problems(good):
    problems = [claim.judge(good) for claim in CHECK.claims]
    assert [p for p in problems if not isinstance(p, CannotJudge)] == [None] * (
        4 - (good.evidence.link is None)
    )


def test_ranks_and_seeds_have_tensors_of_their_own():
    ranks = CHECK.inputs(3, 2) + CHECK.inputs(4, 2)
    first = [rank["a matrix of float64"] for rank in ranks]
    assert not any(torch.equal(first[0], other) for other in first[1:])


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda own, total: own, "root_only"),
        (lambda own, total: total / 3, "mean"),
        (lambda own, total: total + own, "terms"),
        (lambda own, total: None, "returns"),
        (lambda own, total: total.flip(0), "start"),
        (lambda own, total: total[1:], "start"),
    ],
)
def test_what_a_wrong_sum_is_made_of_leads_to_the_hint(good, with_ranks, change, hint):
    name = "a vector"
    own, total = good.inputs[2][name], good.expected[name]

    def changed(value):
        return value | {"sums": value["sums"] | {name: change(own, total)}}

    problem = SUM(with_value(good, with_ranks, 2, changed))
    assert problem.hint == hint
    assert problem.message.startswith(f"{name}, rank 2: what came back")
    assert INPUT(with_value(good, with_ranks, 2, changed)) is None


def test_the_input_must_be_as_it_was_and_no_second_name_of_the_result(good, with_ranks):
    def changed(value):
        return value | {"left": value["left"] | {"a vector": value["sums"]["a vector"]}}

    def shared(value):
        return value | {"shared": value["shared"] | {"a vector": True}}

    for change in (changed, shared):
        assert INPUT(with_value(good, with_ranks, 1, change)).hint == "input"


def test_collectives_are_told_by_the_ledger(good, with_ranks):
    def of_rank(rank):
        return replace(rank, calls=tuple(replace(c, operation="reduce") for c in rank.calls))

    problem = MESSAGES(with_ranks(good, of_rank))
    assert problem.hint == "collective"
    assert "in reduce (line " in problem.message
    silent = with_ranks(good, lambda rank: replace(rank, calls=()))
    assert MESSAGES(silent).hint == "alone"


def test_who_sends_nothing_where_others_do_hears_who_sends_what_to_whom(good, with_ranks):
    def root_only(rank):
        sent = () if rank.rank == 0 else rank.calls
        return replace(rank, calls=tuple(call for call in sent if call.operation == "send"))

    problem = MESSAGES(with_ranks(good, root_only))
    assert (problem.message, problem.hint) == ("rank 0 sends nothing to anybody", "traffic")


def test_bytes_that_a_collective_brought_have_its_hint(good, with_ranks):
    def of_rank(rank):
        return replace(rank, calls=tuple(replace(c, operation="reduce") for c in rank.calls))

    assert TRAFFIC(with_ranks(good, of_rank)).hint == "collective"


def test_who_sends_how_much_is_told_by_ledger_and_kernel(good, with_ranks):
    def twice(rank):
        return replace(rank, calls=rank.calls * (2 if rank.rank == 1 else 1))

    assert TRAFFIC(with_ranks(good, twice)).hint == "everybody"

    def root_sends_once(rank):
        sends = [call for call in rank.calls if call.operation == "send"]
        return replace(rank, calls=tuple(sends[::2])) if rank.rank == 0 else rank

    assert TRAFFIC(with_ranks(good, root_sends_once)).hint == "traffic"
    if good.evidence.link is None:
        pytest.skip(f"no emulated network: {good.evidence.no_link}")

    def sent(nbytes):
        def of_rank(rank):
            if rank.rank != 2:
                return rank
            return replace(rank, traffic=replace(rank.traffic, sent_bytes=nbytes))

        return with_ranks(good, of_rank)

    assert TRAFFIC(sent(900_000)).hint == "everybody"
    assert TRAFFIC(sent(9_000)).hint == "alone"
    assert TRAFFIC(sent(430_000)) is None
