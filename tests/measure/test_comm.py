"""Bus bandwidth is what each rank's link must have carried."""

import pytest

from hpml.measure.comm import all_reduce_seconds, bus_bandwidth
from hpml.ranks import launch


def test_a_perfect_all_reduce_reaches_the_rate_of_the_link_with_any_number_of_ranks():
    for world_size in (2, 3, 4, 64):
        seconds = 8 * 2 * (world_size - 1) / world_size * 10**6 / 10**9
        assert bus_bandwidth(10**6, world_size, [0.1 * seconds, seconds]) == pytest.approx(10**9)


def test_every_repeat_is_timed_on_every_rank_and_the_first_one_is_not():
    def drive(nbytes):
        return all_reduce_seconds(nbytes, repeats=3)

    evidence = launch(drive, 2, inputs=[1000, 1000])
    assert [len(seconds) for seconds in evidence.values] == [3, 3]
    assert all(taken > 0 for seconds in evidence.values for taken in seconds)
    calls = [call for call in evidence.ranks[0].calls if call.operation == "all_reduce"]
    assert [call.nbytes for call in calls] == [1000] * 4
