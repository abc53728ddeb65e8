"""The batch decides: the model by hand, and both sides of what is held to it."""

import pytest

from hpml.modules.m08_case_studies.lecture.batch_scaling import (
    Training,
    computing,
    kept,
    off_the_model,
    speed_up,
    two_batches,
)
from hpml.predict.amdahl import Amdahl
from hpml.predict.collectives import Cost

# 1 MB over 100 Mbit/s takes 80 ms: 160 ms for a ring of very many ranks, 16 images of 10 ms.
TRAINING = Training(0.010, 1e6, Cost(0.0, 8e-8))


def test_a_step_by_hand():
    assert TRAINING.step(8, 1) == pytest.approx(0.080)
    assert TRAINING.step(8, 4) == pytest.approx(0.080 + 1.5 * 0.080)


def test_latency_counts_once_for_each_of_the_ring_s_steps():
    slow = Training(0.010, 0.0, Cost(0.001, 8e-8))
    assert slow.step(0, 5) == pytest.approx(8 * 0.001)


def test_at_break_even_half_of_a_step_of_many_ranks_is_sending():
    assert TRAINING.break_even == pytest.approx(16)
    many = 10**6
    assert TRAINING.weak(16, many) / many == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("batch", [8, 160, 4096])
def test_strong_scaling_without_latencies_is_amdahl_s_law(batch):
    share = TRAINING.break_even / batch
    model = Amdahl(serial=share, parallel=1 - share)
    for ranks in (1, 2, 64, 2**20):
        assert TRAINING.strong(batch, ranks) == pytest.approx(
            model.seconds(1) / model.seconds(ranks)
        )
    assert TRAINING.strong(batch, 2**20) == pytest.approx(TRAINING.limit(batch), rel=0.01)


def test_with_latencies_strong_scaling_falls_again():
    training = Training(0.010, 1e6, Cost(1e-4, 8e-8))
    speeds = [training.strong(512, 2**k) for k in range(16)]
    assert max(speeds) > 10 * speeds[-1]


def test_one_rank_sends_nothing():
    assert TRAINING.strong(32, 1) == TRAINING.weak(32, 1) == 1.0


def test_speed_up_is_over_one_rank():
    assert speed_up({1: 2.0, 4: 0.5}) == {1: 1.0, 4: 4.0}


def measured(times=1.0):
    return {
        b: {p: TRAINING.strong(b, p) * (times if p > 1 else 1) for p in (1, 2, 4, 8)}
        for b in (8, 512)
    }


def test_a_small_batch_gains_nothing_and_a_large_one_does():
    found = two_batches(measured())
    assert found == (True, 8, pytest.approx(8 / 15), pytest.approx(6.56, abs=0.01), 1)
    assert not two_batches({8: {1: 1, 8: 1.2}, 512: {1: 1, 8: 7.0}}).held
    assert not two_batches({8: {1: 1, 8: 0.5}, 512: {1: 1, 8: 2.0}}).held


def test_measurements_must_be_near_the_model():
    assert off_the_model(TRAINING, measured()) == (True, 8, pytest.approx(0))
    assert off_the_model(TRAINING, measured(times=0.5)) == (False, 8, pytest.approx(0.5))


def test_none_is_far_above_its_limit():
    measured = {512: {1: 1, 2**20: 1.2 * TRAINING.strong(512, 2**20)}}
    assert off_the_model(TRAINING, measured).off < 0.21
    assert not off_the_model(TRAINING, measured).held


def test_weak_scaling_is_held_to_the_model():
    seconds = {p: TRAINING.step(64, p) for p in (1, 8)}
    found = kept(TRAINING, 64, seconds)
    assert found.held
    assert found.share == pytest.approx(found.predicted) == pytest.approx(0.64 / 0.78)
    assert not kept(TRAINING, 64, seconds | {8: 3.0}).held


def test_two_ranks_that_compute_lose_with_the_small_batch_and_gain_with_the_large_one():
    def parts(compute, send):
        return {"compute": compute, "send": send}

    small = {1: parts(0.02, 0.0), 2: parts(0.01, 0.03)}
    large = {1: parts(0.8, 0.0), 2: parts(0.4, 0.03)}
    found = computing({8: small, 256: large})
    assert found.held
    assert found.times[8] == pytest.approx(0.5)
    assert found.sending == pytest.approx({8: 0.75, 256: 0.03 / 0.43})
    assert not computing({8: small, 256: small}).held
