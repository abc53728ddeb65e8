import functools

import pytest

from hpml.errors import UserError
from hpml.trace.profiler.collectives import collectives
from hpml.trace.profiler.communication import communication

from .played_ranks import play

about = functools.partial(pytest.approx, abs=2e-6)


def test_a_bucket_behind_backward_is_hidden_and_the_last_one_is_not():
    """Called after 10 ms of backward and after 20; each takes 5 ms."""
    for one in communication(play([[0.03] * 2] * 2, transfer=(0.005, 0.005)), 3):
        assert one.hidden == about(0.005)
        assert one.hidden_share == pytest.approx(0.5, abs=1e-3)
        assert one.transferred == about(0.005)
        assert one.waited == about(0)


def test_a_slow_network_is_transfer_and_not_waiting():
    """The first bucket ends at 10 + 40 ms, the second at 10 + 80; backward ends at 20."""
    for one in communication(play([[0.03] * 2] * 3, transfer=(0.04, 0.04)), 3):
        assert one.hidden == about(0.01)
        assert one.transferred == about(0.07)
        assert one.waited == about(0)


def test_those_who_are_early_wait_and_the_late_one_does_not():
    """Rank 2 loads 30 ms longer: the others call at 10 and 20 ms, and it at 40 and 50 ms."""
    ranks = communication(play([[0.01], [0.01], [0.04], [0.01]]), 3)
    for one in ranks:
        late = one.rank == 2
        # From the end of backward at 20 ms to rank 2's first call; between its two calls the
        # first bucket is on its way for 5 ms, and then the others wait for the second
        assert one.waited == about(0 if late else 0.02 + 0.005)
        assert one.transferred == about(0.005 if late else 0.01)
        assert one.hidden == about(0.005 if late else 0.01)


def test_all_steps_together_are_the_sum_of_the_steps():
    traces = play([[0.01, 0.02, 0.03], [0.03, 0.01, 0.02]])
    for rank, one in enumerate(communication(traces)):
        apart = [communication(traces, number)[rank] for number in (3, 4, 5)]
        assert one.exposed == about(sum(a.exposed for a in apart))
        assert one.exposed_per_step == about(sum(a.exposed for a in apart) / 3)
        assert one.hidden == about(sum(a.hidden for a in apart))


def test_a_collective_is_in_the_step_in_which_it_was_called():
    assert [c.step for c in collectives(play([[0.01] * 2] * 2))] == [3, 3, 4, 4]


def test_a_step_that_was_not_profiled_is_named():
    with pytest.raises(UserError, match="no profiled step 9: there is 3"):
        communication(play([[0.01]] * 2), 9)
