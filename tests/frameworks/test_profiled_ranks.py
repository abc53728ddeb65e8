import numpy as np
import pytest

from hpml.errors import UserError
from hpml.frameworks.profiled_ranks import (
    FIRST,
    LAST,
    NOBODY,
    Slow,
    Training,
    profile_ranks,
    somebody,
)
from hpml.trace.profiler.clocks import align
from hpml.trace.profiler.collectives import collectives


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    quick = Training(layers=2, forward=0.001, backward=0.001, loading=0.001)
    return profile_ranks(quick, 2, tmp_path_factory.mktemp("few"))


def test_each_rank_records_the_same_steps_with_their_phases(few):
    assert [trace.rank for trace in few] == [0, 1]
    for trace in few:
        assert [step.number for step in trace.steps] == list(range(FIRST, LAST + 1))
        assert {"loading", "forward", "backward", "optimizer"} <= set(trace.names)


def test_all_buckets_together_are_the_gradients(few):
    """Two layers of 256 x 256 weights and 256 biases; each wait has a weight of its own."""
    elements = 2 * (256 * 256 + 256 + 1)
    for number in range(FIRST, LAST + 1):
        found = [c for c in collectives(few) if c.step == number]
        assert sum(c.elements for c in found) == elements


def test_ranks_of_one_machine_have_one_clock_as_the_bounds_say(few):
    _, found = align(few)
    assert (found.low <= 0).all()
    assert (found.high >= 0).all()


def test_a_smaller_limit_makes_more_buckets(few, tmp_path):
    small = Training(layers=2, forward=0.001, backward=0.001, loading=0.001, bucket_mb=0.1)
    assert len(collectives(profile_ranks(small, 2, tmp_path))) > len(collectives(few))


def test_without_a_limit_the_first_bucket_is_the_small_one_of_ddps_default(tmp_path):
    """Three layers of 1 MiB: the last one's gradients leave alone, the others together."""
    quick = Training(layers=3, width=512, forward=0.001, backward=0.001, loading=0.001)
    found = [c for c in collectives(profile_ranks(quick, 2, tmp_path)) if c.step == LAST]
    first, second = (4 * c.elements for c in found)
    assert 2**20 <= first < 1.1 * 2**20
    assert second > first


def test_only_the_slow_rank_is_slow_and_only_since_its_step():
    slow = Slow(2, 4, "loading", 0.03)
    table = np.array([[slow.more(rank, step, "loading") for step in range(8)] for rank in range(4)])
    assert table[2, 4:].tolist() == [0.03] * 4
    assert table.sum() == pytest.approx(0.12)
    assert slow.more(2, 5, "forward") == 0
    assert NOBODY.more(0, 5, "loading") == 0


def test_whoever_is_drawn_is_slow_for_some_of_the_profiled_steps():
    for _ in range(50):
        slow = somebody(4)
        assert 0 <= slow.rank < 4
        assert FIRST < slow.since < LAST


def test_a_crowded_core_needs_a_core_for_each_rank(tmp_path):
    with pytest.raises(UserError, match="need so many cores"):
        profile_ranks(Training(crowded=0), 4000, tmp_path)
