"""Arithmetic of intervals, against sets of whole seconds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpml.trace.profiler import intervals

pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted), max_size=8)


def as_set(pieces) -> set[int]:
    return {second for start, end in pieces for second in range(int(start), int(end))}


def made(pairs) -> np.ndarray:
    columns = np.array(pairs, float).reshape(-1, 2)
    return intervals.union(columns[:, 0], columns[:, 1])


@given(pairs)
def test_a_union_counts_each_second_once_in_sorted_pieces_that_do_not_touch(a):
    found = made(a)
    assert as_set(found) == as_set(a)
    assert intervals.length(found) == len(as_set(a))
    assert (found[:, 1] > found[:, 0]).all()
    assert (found[1:, 0] > found[:-1, 1]).all()


@given(pairs, pairs, st.integers(0, 30), st.integers(0, 30))
def test_sets_are_met_joined_taken_away_and_clipped(a, b, start, end):
    one, other = made(a), made(b)
    assert as_set(intervals.intersect(one, other)) == as_set(a) & as_set(b)
    assert as_set(intervals.join(one, other)) == as_set(a) | as_set(b)
    assert as_set(intervals.subtract(one, other)) == as_set(a) - as_set(b)
    if start <= end:
        clipped = intervals.clip(one, start, end)
        assert as_set(clipped) == as_set(a) & set(range(start, end))
        assert intervals.length(clipped) == len(as_set(clipped))


@st.composite
def nested(draw, start=0, end=30, depth=3):
    """Intervals inside each other or apart, as the events of one thread are."""
    found, now = [], start
    while now < end and draw(st.booleans()):
        begin = draw(st.integers(now, end))
        now = draw(st.integers(begin, end))
        found.append((begin, now))
        if depth:
            found += draw(nested(begin, now, depth - 1))
    return found


@given(nested(), st.randoms(use_true_random=False))
def test_the_innermost_of_nested_intervals_counts(found, random):
    random.shuffle(found)
    columns = np.array(found, float).reshape(-1, 2)
    pieces, owner = intervals.innermost(columns[:, 0], columns[:, 1])
    assert as_set(pieces) == as_set(found)
    assert intervals.length(pieces) == len(as_set(found))
    for (start, end), i in zip(pieces, owner, strict=True):
        for second in range(int(start), int(end)):
            around = [pair for pair in found if pair[0] <= second < pair[1]]
            assert tuple(found[i]) in around
            assert found[i][1] - found[i][0] == min(b - a for a, b in around)


def test_of_two_that_overlap_the_later_counts():
    pieces, owner = intervals.innermost(np.array([0.0, 2.0]), np.array([4.0, 6.0]))
    assert pieces.tolist() == [[0, 2], [2, 6]]
    assert owner.tolist() == [0, 1]
