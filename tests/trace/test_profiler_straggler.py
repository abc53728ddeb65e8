import functools

import numpy as np
import pytest

from hpml.errors import UserError
from hpml.trace.profiler.straggler import straggler

from .played_ranks import play

about = functools.partial(pytest.approx, abs=2e-6)


def even(ranks, steps):
    return [[0.01] * steps for _ in range(ranks)]


@pytest.mark.parametrize("culprit", range(4))
@pytest.mark.parametrize("since", [0, 2, 4])
def test_a_slow_loader_is_found_with_its_step_its_phase_and_its_cost(culprit, since):
    loading = even(4, 6)
    loading[culprit][since:] = [0.04] * (6 - since)
    verdict = straggler(play(loading, first=3))
    assert (verdict.rank, verdict.since, verdict.phase) == (culprit, 3 + since, "loading")
    assert verdict.late == about(0.03)
    assert verdict.more == about(0.03)
    assert verdict.blamed != culprit  # those who wait look as if they communicate


def test_a_slow_processor_shows_where_most_is_computed():
    verdict = straggler(play(even(3, 4), slower=[1, 3, 1]))
    assert (verdict.rank, verdict.phase) == (1, "backward")
    # 20 ms more forward; the first bucket is called 20 ms later for that, the second 40
    assert verdict.late == about(0.02 + 0.04)
    assert verdict.more == about(0.04)


def test_nobody_is_blamed_where_all_are_even():
    verdict = straggler(play(even(4, 5)))
    assert verdict.rank is None
    assert str(verdict).startswith("No rank holds up the others")


def test_nobody_is_blamed_where_each_is_late_in_turn():
    rng = np.random.default_rng(0)
    loading = (0.02 + 0.002 * rng.random((4, 8))).tolist()
    assert straggler(play(loading)).rank is None


def test_nobody_is_blamed_for_a_single_step():
    loading = even(4, 6)
    loading[1][5] = 0.05
    assert straggler(play(loading)).rank is None


def test_a_single_long_hiccup_of_another_rank_hides_nobody():
    loading = even(4, 8)
    loading[2][1] = 0.5
    loading[1][4:] = [0.04] * 4
    verdict = straggler(play(loading, first=3))
    assert (verdict.rank, verdict.since, verdict.phase) == (1, 7, "loading")


def test_a_rank_that_is_late_for_several_buckets_is_late_once():
    many = play([[0.01] * 3, [0.04] * 3], backward=[0.005] * 4, transfer=[0.001] * 4)
    assert straggler(many).late == about(0.03)


def test_the_verdict_reads_as_a_sentence():
    text = str(straggler(play([[0.01] * 4, [0.01] * 2 + [0.05] * 2])))
    assert text == (
        "Rank 1, since step 5: it comes 40 ms after the others in each step, "
        "with 40 ms more in loading."
    )


def test_a_single_rank_has_nobody_who_waits():
    with pytest.raises(UserError, match="two ranks or more"):
        straggler(play([[0.01]]))


def test_ranks_that_profiled_different_steps_are_not_compared():
    with pytest.raises(UserError, match="different steps"):
        straggler([play(even(2, 2))[0], play(even(2, 3))[1]])
