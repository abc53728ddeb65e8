"""The simulator of ranks: what it plays obeys the laws of collectives, and its events say it."""

from itertools import pairwise

import pytest

from hpml.modules.m03_profiling.checks._moments import own_work
from hpml.modules.m03_profiling.checks._planted_ranks import (
    JITTER,
    Begin,
    End,
    Idle,
    Launch,
    Op,
    Wait,
    play,
)

AVERAGE = ("all_reduce", 3000)


def program(rank):
    """Two collectives a step, in the middle of work that takes longer on later ranks."""
    for step in (5, 6):
        yield Begin(f"ProfilerStep#{step}")
        yield Begin("backward")
        for _ in range(2):
            yield Op("aten::mm", 1000 * (rank + 1), ("aten::t", "aten::mul"))
            yield Launch(*AVERAGE)
        yield Wait()
        yield End()
        yield Begin("optimizer")
        yield Idle(200)
        yield End()
        yield End()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_collective_ends_everywhere_when_the_last_rank_has_joined_and_data_have_moved(threads):
    ranks = play(3, 4, program, threads=threads)
    for same in zip(*(made.collectives for made in ranks), strict=True):
        joined = max(one.begin for one in same)
        assert {one.joined for one in same} == {joined}
        assert all(0 <= one.end - joined - AVERAGE[1] <= JITTER for one in same)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_thread_carries_out_one_collective_at_a_time_and_in_order(threads):
    for made in play(3, 3, program, threads=threads):
        begins = [one.begin for one in made.collectives]
        assert begins == sorted(set(begins))
        for thread in range(threads):
            mine = [one for one in made.collectives if one.thread == thread]
            assert mine
            assert all(a.end < b.begin for a, b in pairwise(mine))


def test_a_wait_ends_with_the_last_collective_and_is_nobodys_own_work():
    for made in play(3, 3, program):
        (_, (_, first_end)), *_ = [mark for mark in made.marks if mark[0] == "backward"]
        assert first_end == made.collectives[1].end
        own = own_work(made)
        # Between two collectives on one thread are 3 microseconds
        assert own[5, "backward"] == pytest.approx(2000 * (made.rank + 1), abs=4)
        assert own[6, "optimizer"] == 200


def test_events_are_on_the_ranks_own_clock_and_in_no_order():
    ranks = play(3, 3, program)
    assert len({made.offset for made in ranks}) == 3
    assert len({tuple(event["name"] for event in made.events) for made in ranks}) == 3
    for made in ranks:
        (step,) = [event for event in made.events if event["name"] == "ProfilerStep#6"]
        assert step["ts"] - made.offset == pytest.approx(made.steps[6][0], abs=0.01)
        found = sorted(e["ts"] - made.offset for e in made.events if e["name"].startswith("gloo:"))
        assert found == pytest.approx([one.begin for one in made.collectives], abs=0.01)


def test_ranks_that_launch_different_collectives_are_refused():
    def uneven(rank):
        for _ in range(rank + 1):
            yield Launch(*AVERAGE)
        yield Wait()

    with pytest.raises(ValueError, match="not all of them launch"):
        play(3, 2, uneven)
