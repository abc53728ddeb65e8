"""The batch decides: the model by hand, and both sides of what the lecture concludes from it."""

import pytest

from hpml.modules.m08_case_studies.lecture.batch_scaling import (
    Training,
    of_break_even,
    of_computing,
    of_models,
    of_two_batches,
    of_weak,
    speed_up,
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
    held, sentence, _ = of_two_batches(measured())
    assert held
    assert "8 ranks have 0.5 times" in sentence
    assert not of_two_batches({8: {1: 1, 8: 1.2}, 512: {1: 1, 8: 7.0}})[0]
    assert not of_two_batches({8: {1: 1, 8: 0.5}, 512: {1: 1, 8: 2.0}})[0]


def test_limits_are_the_model_s_and_measurements_must_be_near_it():
    held, sentence, _ = of_break_even(TRAINING, measured())
    assert held
    assert "16 images" in sentence
    assert "32.0 times for a batch of 512" in sentence
    held, _, otherwise = of_break_even(TRAINING, measured(times=0.5))
    assert not held
    assert "50%" in otherwise


def test_weak_scaling_is_held_to_the_model():
    seconds = {p: TRAINING.step(64, p) for p in (1, 8)}
    held, sentence, _ = of_weak(TRAINING, 64, seconds)
    assert held
    assert "16,384 images" in sentence
    assert not of_weak(TRAINING, 64, seconds | {8: 3.0})[0]


def test_two_ranks_that_compute_lose_with_the_small_batch_and_gain_with_the_large_one():
    def parts(compute, send):
        return {"compute": compute, "send": send}

    small = {1: parts(0.02, 0.0), 2: parts(0.01, 0.03)}
    large = {1: parts(0.8, 0.0), 2: parts(0.4, 0.03)}
    held, sentence, _ = of_computing({8: small, 256: large})
    assert held
    assert "0.5 times" in sentence
    assert "75% and 7%" in sentence
    assert not of_computing({8: small, 256: small})[0]


def test_models_are_listed_with_what_is_left_on_256_ranks():
    large = Training(0.010, 4e6, Cost(0.0, 8e-8))
    held, sentence, _ = of_models({"small": (TRAINING, 16), "large": (large, 64)})
    assert held
    assert "small 16 (10 ms each), large 64 (10 ms each)" in sentence
    assert "small 50% with 16, large 50% with 64 images" in sentence
    assert not of_models({"large": (large, 64), "small": (TRAINING, 16)})[0]
