"""Exercise prefetch: what its judges make of requests and values, right and wrong."""

from dataclasses import replace

import pytest
import torch

from hpml.checks.contract import CannotJudge
from hpml.modules.m02_hardware.checks import _served_batches as served
from hpml.modules.m02_hardware.checks._prefetch_picture import times
from hpml.modules.m02_hardware.checks.prefetch import CHECK, left_behind, misread, new_batches
from hpml.ranks.evidence import Asked, Counts, Diagnosis, RankEvidence

EVERY, OVERLAPS, BOUNDED, RAISES, LEAVES = (claim.judge for claim in CHECK.claims)


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 1, 5)


def rank_that(*requests: str) -> RankEvidence:
    asked = tuple(Asked(request, at=float(n)) for n, request in enumerate(requests))
    return RankEvidence(0, "returned", asked=asked)


def with_hang(run, stage):
    hung = replace(run.stages[stage], diagnosis=Diagnosis("hang", "rank 0 waits"))
    return replace(run, stages={**run.stages, stage: hung})


def test_a_good_run_has_no_problem(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_for_every_seed():
    first, second = (CHECK.inputs(seed, 1)["slow"][0]["batches"][0] for seed in (1, 2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("seed", range(5))
def test_what_decides_a_rule_is_played_whatever_the_seed(seed):
    given = CHECK.inputs(seed, 1)
    assert [rank["depth"] for rank in given["overlap"]] == [1, 2]
    alone, deeper = given["slow"]
    assert alone["depth"] == 1 < deeper["depth"]
    assert not alone["without_next"]
    assert deeper["without_next"]
    assert {rank["closes"] for rank in given["left"]} == {False, True}


def test_only_the_first_batch_is_read_before_the_caller_computes(good, with_ranks):
    def early(rank):
        told = ["next", "read", "read", "compute", "computing"]
        return replace(rank, asked=rank_that(*told, *["read", "compute", "computing"] * 6).asked)

    assert OVERLAPS(with_ranks(good, early, "overlap")).hint == "first_waits"


@pytest.mark.parametrize("words", ["'Batches' object is not an iterator", "no '__next__'"])
def test_an_iterable_has_no_next(good, with_value, words):
    def failed(value):
        return {"got": [], "error": ["TypeError", words, False], "empty": []}

    assert EVERY(with_value(good, 1, failed, "slow")).hint == "iterable"


def test_ranks_are_sent_no_batch():
    for stage in CHECK.stages:
        sent, _ = stage.serve(CHECK.inputs(3, 1)[stage.name])
        assert all(not {"batches", "raises"} & rank.keys() for rank in sent)


@pytest.mark.parametrize(
    ("places", "hint"),
    [
        ([0, 1, 2, 3], None),
        ([0, 2, 3], "lost"),
        ([3, 0], "order"),
    ],
)
def test_batches_are_found_by_their_values(places, hint):
    batches = new_batches(torch.Generator().manual_seed(0), 4)
    problem = misread([batches[place].clone() for place in places], batches)
    assert (problem and problem.hint) == hint


@pytest.mark.parametrize("item", [None, torch.zeros(4, 3), [1.0]])
def test_what_is_no_batch_is_named(item):
    batches = new_batches(torch.Generator().manual_seed(0), 4)
    assert misread([batches[0], item], batches).hint == "no_batch"


def test_reads_and_computations_overlap_by_the_order_of_requests():
    beside = rank_that("next", "read", "compute", "read", "computing", "reading", "next")
    assert served.overlap(served.reads(beside)[1], served.computations(beside)[0])
    turns = rank_that("read", "reading", "compute", "computing", "next", "read", "reading")
    assert not any(
        served.overlap(read, busy)
        for read in served.reads(turns)
        for busy in served.computations(turns)
    )


def test_how_far_the_reader_is_ahead_counts_what_was_not_asked_for():
    rank = rank_that("read", "next", "compute", "read", "read", "computing", "next", "read")
    assert served.ahead(rank, batches=4) == [1, 1, 2, 2]
    assert served.ahead(rank, batches=3) == [1, 1, 2]


def test_one_batch_more_than_the_bound_is_too_many(good, with_ranks):
    depth = good.inputs["slow"][0]["depth"]
    number = len(good.inputs["slow"][0]["batches"])

    def far(extra):
        def change(rank):
            told = ["next", *["read"] * (1 + depth + extra), "compute"]
            told += ["next", "read"] * (number - depth - extra - 1)
            return replace(rank, asked=rank_that(*told).asked)

        return change

    assert BOUNDED(with_ranks(good, far(1), "slow")) is None
    assert BOUNDED(with_ranks(good, far(2), "slow")).hint == "unbounded"
    assert BOUNDED(with_ranks(good, far(-1), "slow")).hint == "shallow"


def test_two_readers_are_the_cause_of_all_that_they_break(good, with_ranks):
    error = ["ValueError", "generator already executing", False]

    def fallen(rank):
        value = {"got": [], "error": error}
        return replace(rank, value=value, asked=rank_that("next", "read").asked)

    run = good
    for stage in ("overlap", "slow", "error"):
        run = with_ranks(run, fallen, stage)
    for judge in (EVERY, OVERLAPS, BOUNDED, RAISES):
        assert judge(run).hint == "two_readers"
    assert RAISES(run) == EVERY(run)


def test_an_error_that_is_lost_is_no_end(good, with_value):
    quiet = with_value(good, 0, lambda value: {"got": [], "error": None}, "error")
    assert RAISES(quiet).hint == "swallowed"
    hangs = with_hang(good, "error")
    assert RAISES(hangs).hint == "swallowed"
    assert LEAVES(hangs) == RAISES(hangs)  # it is not about threads


def test_a_thread_that_stays_is_counted_from_outside(good, with_ranks):
    def one_more(rank):
        *before, last = rank.asked
        counts = replace(last.counts, tasks=last.counts.tasks + 1)
        return replace(rank, asked=(*before, replace(last, counts=counts)))

    for stage, hint in (("slow", "after_the_end"), ("left", "after_break")):
        assert LEAVES(with_ranks(good, one_more, stage)).hint == hint


def test_where_threads_are_not_counted_nobody_loses_points():
    rank = rank_that("count", "count")
    assert isinstance(left_behind(rank), CannotJudge)
    unseen = tuple(replace(asked, counts=Counts(tasks=0)) for asked in rank.asked)
    assert isinstance(left_behind(replace(rank, asked=unseen)), CannotJudge)


def test_the_picture_has_every_read_and_computation(solution):
    source = solution("prefetch")
    picture = CHECK.picture(CHECK, source)
    assert picture.png.startswith(b"\x89PNG")
    assert "30 ms here and computing 50 ms" in picture.words
    with pytest.raises(ValueError, match="three computations"):
        CHECK.picture(CHECK, "def prefetch(batches, depth):\n    return iter(())\n")


def test_times_of_the_picture_are_those_of_the_requests():
    rank = rank_that("next", "read", "reading", "compute", "computing", "computing", "next")
    assert times(rank) == ([(1.0, 2.0)], [(3.0, 5.0)])


def test_what_is_not_served_is_refused():
    source = served.Source([torch.zeros(1)], depth=1)
    with pytest.raises(ValueError, match="not served"):
        source.reply({"read": 3})


def test_a_read_waits_for_a_computation_and_the_other_way_round():
    source = served.Source([torch.zeros(1)] * 3, depth=1, meets=True)
    assert "batch" in source.reply("read")  # the first: nothing can be computed yet
    assert source.reply("read") is None
    source.reply("next")
    assert source.reply("compute") is True
    assert "batch" in source.reply("reading")
    source.reply("next")
    assert source.reply("compute") is False
    assert "batch" in source.reply("read")
    assert source.reply("computing") is True
