"""Exercise naive_all_reduce: what its judges say of a good run, and of one with a change."""

from dataclasses import replace

import pytest

from hpml.checks.contract import CannotJudge
from hpml.modules.m01_parallel_sgd.checks.naive_all_reduce import CHECK
from hpml.predict.collectives import Cost, all_reduce_seconds

SUM, INPUT, MESSAGES, TRAFFIC = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 3, 5)


def test_a_good_run_has_no_problems(good):
    problems = [claim.judge(good) for claim in CHECK.claims]
    assert [p for p in problems if not isinstance(p, CannotJudge)] == [None] * (
        4 - (good.evidence.link is None)
    )


def test_ranks_and_seeds_have_tensors_of_their_own():
    import torch

    ranks = CHECK.inputs(3, 2) + CHECK.inputs(4, 2)
    first = [rank["a matrix of float64"] for rank in ranks]
    assert not any(torch.equal(first[0], other) for other in first[1:])


@pytest.mark.parametrize("change", [lambda total: total.flip(0), lambda total: total[1:]])
def test_what_is_made_of_no_ranks_tensors_is_reported(good, with_value, change):
    def changed(value):
        return value | {"sums": value["sums"] | {"a vector": change(value["sums"]["a vector"])}}

    run = with_value(good, 2, changed)
    problem = SUM(run)
    assert problem.hint == "start"
    assert problem.message.startswith("a vector, rank 2: what came back")
    assert INPUT(run) is None


def test_the_result_is_no_second_name_of_the_input(good, with_value):
    shared = with_value(good, 1, lambda v: v | {"shared": v["shared"] | {"a vector": True}})
    assert INPUT(shared).hint == "input"


@pytest.mark.parametrize(("ranks", "milliseconds"), [(4, 48), (8, 112)])
def test_the_texts_megabyte_takes_as_long_on_the_link_of_rank_0(ranks, milliseconds):
    took = all_reduce_seconds("naive", 1e6, ranks, Cost(alpha=0.0, beta=8 / 1e9))
    assert took == pytest.approx(milliseconds / 1e3)


def test_a_result_that_the_next_call_overwrites_is_told_so(good, with_value):
    kept = {"a vector": "", "another vector": "a vector"}
    problem = SUM(with_value(good, 1, lambda v: v | {"again": kept}))
    assert problem.hint == "again"
    assert "the sum of another vector is in the tensor that held that of a vector" in (
        problem.message
    )


def test_who_adds_up_besides_rank_0_is_told_so(good, with_ranks):
    def to_a_neighbour(rank):
        sends = (replace(c, peer=1) if c.operation == "send" else c for c in rank.calls)
        return replace(rank, calls=tuple(sends)) if rank.rank == 2 else rank

    problem = TRAFFIC(with_ranks(good, to_a_neighbour))
    assert (problem.message, problem.hint) == ("rank 2 sends to rank 1", "traffic")


def test_collectives_are_told_by_the_ledger(good, with_ranks):
    def of_rank(rank):
        return replace(rank, calls=tuple(replace(c, operation="reduce") for c in rank.calls))

    run = with_ranks(good, of_rank)
    assert "in reduce (line " in MESSAGES(run).message
    assert TRAFFIC(run).hint == "collective"
    assert MESSAGES(with_ranks(good, lambda rank: replace(rank, calls=()))).hint == "alone"


def test_who_sends_nothing_where_others_do_hears_who_sends_what_to_whom(good, with_ranks):
    def root_only(rank):
        sent = () if rank.rank == 0 else rank.calls
        return replace(rank, calls=tuple(call for call in sent if call.operation == "send"))

    problem = MESSAGES(with_ranks(good, root_only))
    assert (problem.message, problem.hint) == ("rank 0 sends nothing to anybody", "traffic")


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
