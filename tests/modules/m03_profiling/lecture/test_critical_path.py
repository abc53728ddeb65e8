import functools
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.modules.m03_profiling.lecture.critical_path import critical_path, table

from ....trace.played_ranks import play

about = functools.partial(pytest.approx, abs=2e-6)

some = st.floats(0.001, 0.05)


def told(traces, step=3):
    return [(p.rank, p.what, round(p.seconds * 1e3, 3)) for p in critical_path(traces, step)]


def test_a_late_rank_is_the_path_until_its_last_call():
    """Ranks 0 and 2 wait; their 10 ms of loading are on no path."""
    traces = play([[0.01], [0.04], [0.01]])
    path = told(traces)
    assert path[:3] == [(1, "loading", 40.0), (1, "forward", 10.0), (1, "backward", 20.0)]
    assert path[3][1:] == ("all_reduce", 5.0)
    assert path[4][1:] == ("optimizer", 1.0)


def test_a_slow_network_is_the_path_through_each_bucket():
    """The second bucket queues behind the first, which was called after 10 ms of backward."""
    path = told(play([[0.01], [0.02]], transfer=(0.04, 0.05)))
    assert [(what, ms) for _, what, ms in path] == [
        ("loading", 20.0),
        ("forward", 10.0),
        ("backward", 10.0),
        ("all_reduce", 40.0),
        ("all_reduce", 50.0),
        ("optimizer", 1.0),
    ]
    assert {rank for rank, *_ in path[:3]} == {1}


@given(
    st.lists(st.lists(some, min_size=2, max_size=2), min_size=2, max_size=4),
    st.lists(some, min_size=3, max_size=3),
    st.lists(some, min_size=3, max_size=3),
)
@settings(deadline=None, max_examples=60)
def test_the_pieces_follow_each_other_without_a_gap_and_end_with_the_step(
    loading, backward, transfer
):
    traces = play(loading, backward=backward, transfer=transfer)
    for step in (3, 4):
        path = critical_path(traces, step)
        for one, following in itertools.pairwise(path):
            assert one.end == about(following.start)
        window = [trace.steps[step - 3] for trace in traces]
        assert path[-1].end == about(max(s.end for s in window))
        assert path[0].start == about(window[path[0].rank].start)


@given(
    st.lists(some, min_size=3, max_size=3),
    st.lists(some, min_size=2, max_size=2),
    st.lists(some, min_size=2, max_size=2),
)
@settings(deadline=None, max_examples=40)
def test_what_is_shortened_on_the_path_shortens_the_step(loading, backward, transfer):
    """Loading of the path's first rank by a millisecond less: the step ends so much earlier,
    unless another rank is then the last."""
    traces = play([[s] for s in loading], backward=backward, transfer=transfer)
    rank = critical_path(traces, 3)[0].rank
    faster = list(loading)
    faster[rank] -= 0.0005
    second = sorted(loading)[-2]
    gained = min(0.0005, max(loading) - second)
    sooner = play([[s] for s in faster], backward=backward, transfer=transfer)
    assert max(t.steps[0].end for t in traces) - max(t.steps[0].end for t in sooner) == (
        about(gained)
    )


def test_a_path_reads_as_a_table_in_which_short_pieces_are_one_line():
    lines = table(critical_path(play([[0.01], [0.04], [0.01]]), 3), least=0.05).splitlines()
    assert [line.split() for line in lines] == [
        ["rank", "what", "ms", "of", "the", "path"],
        ["1", "loading", "40.0", "53%"],
        ["1", "forward", "10.0", "13%"],
        ["1", "backward", "20.0", "26%"],
        ["0", "all_reduce", "5.0", "7%"],
        ["shorter", "ones", "1.0", "1%"],
    ]
