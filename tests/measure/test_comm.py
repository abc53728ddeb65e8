"""Bus bandwidth is what each rank's link must have carried; a fit finds the α and β of a line."""

import math

import numpy as np
import pytest

from hpml.measure.comm import Fit, all_reduce_seconds, bus_bandwidth, fit
from hpml.ranks import launch


def test_a_perfect_all_reduce_reaches_the_rate_of_the_link_with_any_number_of_ranks():
    for world_size in (2, 3, 4, 64):
        seconds = 8 * 2 * (world_size - 1) / world_size * 10**6 / 10**9
        assert bus_bandwidth(10**6, world_size, [0.1 * seconds, seconds]) == pytest.approx(10**9)


def test_a_fit_is_printed_in_plain_numbers():
    found = Fit(1.1e-3, 8.314e-9, 3.9e-4, 3.1e-9)
    assert str(found) == "α = 1100 ± 390 µs, β = 8.31 ± 3.1 ns per byte (0.962 Gbit/s)"


def test_every_repeat_is_timed_on_every_rank_and_the_first_one_is_not():
    def drive(nbytes):
        return all_reduce_seconds(nbytes, repeats=3)

    evidence = launch(drive, 2, inputs=[1000, 1000])
    assert [len(seconds) for seconds in evidence.values] == [3, 3]
    assert all(taken > 0 for seconds in evidence.values for taken in seconds)
    calls = [call for call in evidence.ranks[0].calls if call.operation == "all_reduce"]
    assert [call.nbytes for call in calls] == [1000] * 4


def test_whatever_all_reduces_can_be_timed():
    def drive(nbytes):
        from hpml.allreduce import all_reduce

        return all_reduce_seconds(nbytes, 2, lambda tensor: all_reduce(tensor, "ring"))

    evidence = launch(drive, 2, inputs=[1000, 1000])
    assert [len(seconds) for seconds in evidence.values] == [2, 2]
    operations = {call.operation for call in evidence.ranks[0].calls}
    assert operations >= {"send", "recv"}
    assert "all_reduce" not in operations


@pytest.mark.parametrize("world_size", [2, 3])
def test_a_ping_pong_has_one_time_for_each_size_and_all_ranks_have_it(world_size):
    def drive(sizes):
        from hpml.measure.comm import ping_pong

        return ping_pong(sizes, repeats=4)

    evidence = launch(drive, world_size, inputs=[[4, 1000, 100_000]] * world_size)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    first, *others = evidence.values
    assert len(first) == 3
    assert all(other == first for other in others)
    sent = [call.nbytes for call in evidence.ranks[0].calls if call.operation == "send"]
    assert sent == [4] * 5 + [4] * 5 + [1000] * 5 + [100_000] * 5


def test_a_message_takes_time_however_slow_the_others_were(monkeypatch):
    from hpml.measure import comm

    seconds = iter([[0.5, 0.5], [0.002, 0.004], [0.9, 0.7]])  # 4 bytes, then the sizes
    monkeypatch.setattr(comm.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(comm.dist, "broadcast", lambda tensor, src: None)
    monkeypatch.setattr(comm, "_round_trips", lambda *arguments: next(seconds))
    assert comm.ping_pong([4, 1000], 2) == pytest.approx([0.0025 - 0.001, 0.75 - 0.001])


SIZES = [4, 64, 1000, 10_000, 10**6, 10**7]


def test_a_fit_finds_the_line_that_is_there():
    found = fit(SIZES, [5e-5 + 8e-9 * n for n in SIZES])
    assert found.alpha == pytest.approx(5e-5)
    assert found.beta == pytest.approx(8e-9)
    assert found.bandwidth == pytest.approx(1e9)
    assert found.alpha_error < 1e-12
    assert found.beta_error < 1e-16
    assert found.seconds(1000) == pytest.approx(5.8e-5)


def test_the_latency_is_not_lost_beside_large_messages():
    # 5 % too slow at the largest alone: an unweighted fit would find a latency below 0.
    seconds = [5e-5 + 8e-9 * n for n in SIZES]
    seconds[-1] *= 1.05
    assert np.polyfit(SIZES, seconds, 1)[1] < 0
    assert fit(SIZES, seconds).alpha == pytest.approx(5e-5, rel=0.02)


def test_the_standard_errors_are_those_of_repeated_measurements():
    generator = np.random.default_rng(1)
    truth = np.array([5e-5 + 8e-9 * n for n in SIZES])
    fits = [fit(SIZES, truth * generator.normal(1, 0.03, len(SIZES))) for _ in range(2000)]
    for value, error in (("alpha", "alpha_error"), ("beta", "beta_error")):
        spread = np.std([getattr(found, value) for found in fits])
        reported = math.sqrt(np.mean([getattr(found, error) ** 2 for found in fits]))
        assert reported == pytest.approx(spread, rel=0.1)


def test_two_sizes_make_a_line_without_errors():
    found = fit([4, 10**7], [5e-5, 0.08])
    assert found.seconds(10**7) == pytest.approx(0.08)
    assert math.isnan(found.alpha_error)
    assert math.isnan(found.beta_error)


@pytest.mark.parametrize(
    ("sizes", "seconds"), [([4], [1]), ([4, 4], [1, 1]), ([4, 8], [1]), ([4, 8], [0, 1])]
)
def test_what_makes_no_line_is_refused(sizes, seconds):
    with pytest.raises(ValueError, match=r"two sizes|above 0"):
        fit(sizes, seconds)
