"""Schedules of a pipeline: what runs, how long ranks idle, what stays live, how stale it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.predict.pipeline import (
    Pass,
    Schedule,
    bubble,
    gpipe,
    in_batches,
    interleaved,
    one_f_one_b,
    pipedream,
    played,
    staleness,
)
from hpml.trace.computations import idle_share, live_activations

ranks = st.integers(1, 6)
micro_batches = st.integers(1, 12)
chunks = st.integers(1, 3)
seconds = st.integers(1, 5).map(float)


def once_each(schedule, micro_batches):
    """Every rank has every micro-batch through each of its chunks once, forward and backward."""
    whole = {
        Pass(kind, i, chunk)
        for kind in ("forward", "backward")
        for i in range(micro_batches)
        for chunk in range(schedule.chunks)
    }
    return all(len(order) == len(whole) and set(order) == whole for order in schedule.orders)


@given(ranks, micro_batches)
def test_every_rank_computes_every_micro_batch_once_each_way(p, m):
    for schedule in (gpipe(p, m), one_f_one_b(p, m), pipedream(p, m)):
        assert once_each(schedule, m)


@given(ranks, st.integers(1, 3), chunks)
def test_an_interleaved_rank_computes_every_micro_batch_once_in_each_chunk(p, groups, v):
    assert once_each(interleaved(p, groups * p, v), groups * p)


@given(ranks, micro_batches, seconds, seconds)
def test_gpipe_and_1f1b_idle_by_the_formula_however_long_a_pass_takes(p, m, forward, backward):
    for schedule in (gpipe(p, m), one_f_one_b(p, m)):
        done = played(schedule, forward, backward)
        assert idle_share(done) == pytest.approx(bubble(p, m))


@given(ranks, st.integers(1, 4), chunks)
def test_interleaved_stages_divide_the_bubble_by_their_number(p, groups, v):
    m = groups * p
    assert idle_share(played(interleaved(p, m, v))) == pytest.approx(bubble(p, m, v))


@given(ranks, micro_batches)
def test_1f1b_holds_at_most_as_many_activations_as_there_are_stages_after_it(p, m):
    assert live_activations(played(gpipe(p, m))) == dict.fromkeys(range(p), m)
    expected = {rank: min(m, p - rank) for rank in range(p)}
    assert live_activations(played(one_f_one_b(p, m))) == expected


def test_interleaved_ranks_have_as_many_chunks_under_way_as_in_megatron_lm():
    """Rank r begins with 2(p-r-1) + (v-1)p forward passes, then takes turns."""
    assert live_activations(played(interleaved(4, 8, 2))) == {0: 11, 1: 9, 2: 7, 3: 5}


@given(ranks, st.integers(2, 8), st.integers(1, 4))
def test_a_flushed_pipeline_has_the_bubble_of_each_batch_and_one_that_never_flushes_only_one(
    p, m, batches
):
    each = (1.0 + 2.0) * (m + p - 1)
    done = played(in_batches(one_f_one_b(p, m), batches))
    assert max(one.end for one in done) == pytest.approx(batches * each)
    done = played(pipedream(p, m * batches))
    assert idle_share(done) == pytest.approx(bubble(p, m * batches))


@given(ranks, micro_batches)
def test_without_a_flush_the_first_rank_is_the_most_stale_and_with_it_nobody_is(p, m):
    many = m + 2 * p
    assert staleness(pipedream(p, many)) == [p - rank - 1 for rank in range(p)]
    flushed = in_batches(one_f_one_b(p, m), 3)
    assert staleness(flushed, every=m) == [0] * p


def test_a_pass_waits_for_the_stage_before_and_the_stage_after():
    start = {(one.rank, one.kind): one.start for one in played(gpipe(3, 1))}
    assert [start[rank, "forward"] for rank in range(3)] == [0, 1, 2]
    assert [start[rank, "backward"] for rank in range(3)] == [7, 5, 3]


def test_an_order_in_which_ranks_wait_for_each_other_is_refused():
    forward, backward = Pass("forward", 0), Pass("backward", 0)
    stuck = Schedule("stuck", ((forward, backward), (backward, forward)))
    with pytest.raises(ValueError, match="rank 1 waits before backward 0"):
        played(stuck)


def test_interleaving_needs_a_multiple_of_the_ranks():
    with pytest.raises(ValueError, match="give a multiple"):
        interleaved(4, 6)
