import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.errors import UserError
from hpml.trace.profiler.clocks import align, clocks, moved_by
from hpml.trace.profiler.collectives import Collective, collectives

from .played_ranks import play

seconds = st.floats(0.0, 0.2, allow_subnormal=False)


@st.composite
def planted(draw):
    """Collectives of ranks with clocks that are off; and by how much."""
    size, count = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    offset = np.array(
        [0.0, *draw(st.lists(st.floats(-9, 9), min_size=size - 1, max_size=size - 1))]
    )
    found, now = [], np.full(size, 50.0)
    for _ in range(count):
        now = now + np.array(draw(st.lists(seconds, min_size=size, max_size=size)))
        # Any rank may have its result any time after the last has begun
        end = now.max() + np.array(draw(st.lists(seconds, min_size=size, max_size=size)))
        found.append(Collective("all_reduce", 0, now - offset, now - offset, end - offset))
        now = end
    return found, offset


@given(planted())
def test_the_true_offset_lies_within_the_bounds_and_the_error_is_no_smaller_than_the_truth(case):
    found, offset = case
    found = clocks(found)
    assert (found.low <= offset + 1e-9).all()
    assert (offset <= found.high + 1e-9).all()
    assert (np.abs(found.offset - offset) <= found.error + 1e-9).all()
    assert (found.offset[0], found.error[0]) == (0, 0)


@given(st.lists(st.floats(-100, 100), min_size=3, max_size=3))
@settings(max_examples=20)
def test_ranks_that_leave_together_are_aligned_to_the_microsecond(offset):
    offset = [0.0, *offset]
    loading = [[0.01 * (r == 2) for _ in range(4)] for r in range(4)]
    traces, found = align(play(loading, offset=offset))
    assert np.abs(found.offset - offset).max() < 1e-6
    ends = np.array([c.end for c in collectives(traces)])
    assert np.ptp(ends, axis=1).max() < 1e-6


def test_a_moved_trace_has_its_steps_moved_with_it():
    (trace, _) = play([[0.01], [0.02]])
    ahead = moved_by(trace, 2.0)
    assert ahead.steps[0].start == trace.steps[0].start + 2
    assert np.allclose(ahead.start - trace.start, 2)


def test_collectives_of_different_runs_give_no_clock():
    """Rank 1's clock would have to be behind for one collective and ahead for the other."""
    found = [
        Collective("all_reduce", 0, *np.array([[1.0, 1.0], [1.0, 1.0], [1.1, 1.1]])),
        Collective("all_reduce", 1, *np.array([[2.0, 9.0], [2.0, 9.0], [2.1, 9.1]])),
    ]
    with pytest.raises(UserError, match="on any clock"):
        clocks(found)


def test_a_broadcast_alone_gives_no_clock():
    one = Collective("broadcast", 0, *np.array([[1.0, 1.0], [1.0, 1.0], [1.1, 1.1]]))
    with pytest.raises(UserError, match="no common clock"):
        clocks([one])
