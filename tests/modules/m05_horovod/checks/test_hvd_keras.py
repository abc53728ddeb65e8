"""Exercise hvd_keras: what its judges say of a good run with one change."""

import pytest
import torch

from hpml.modules.m05_horovod.checks._keras_script import (
    BATCH,
    EPOCHS,
    LEARNING_RATE,
    LENGTH,
    followed,
    rate_at,
)
from hpml.modules.m05_horovod.checks.hvd_keras import CHECK

SAMPLES, ALIKE, RATE, STEPS, METRICS, _ = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def test_the_rate_rises_from_one_ranks_to_that_of_all():
    rates = [rate_at(step, 6, 4) for step in range(9)]
    assert rates[:6] == pytest.approx([LEARNING_RATE * (1 + n / 2) for n in range(1, 7)])
    assert rates[6:] == pytest.approx([4 * LEARNING_RATE] * 3)
    assert {rate_at(step, 6, 1) for step in range(9)} == {LEARNING_RATE}


def test_ranks_that_are_made_alike_after_the_first_step_bring_gradients_of_their_own():
    ranks = CHECK.inputs(2, 2)
    at_once, later = followed(ranks, True), followed(ranks, False)
    assert torch.equal(at_once["states"][0][0][0], later["states"][0][0][0])
    assert not torch.equal(later["states"][0][0][0], later["states"][0][1][0])
    assert not torch.equal(at_once["states"][1][0][0], later["states"][1][0][0])
    assert torch.equal(later["states"][1][0][0], later["states"][1][1][0])


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda batch: [], "no_samples"),
        (lambda batch: [*batch, 0], "samples"),
    ],
)
def test_what_is_wrong_with_a_share_is_said(good, with_taken, change, hint):
    run = with_taken(good, 1, lambda own: [change(batch) for batch in own])
    assert SAMPLES(run).hint == hint
    assert STEPS(run).hint == hint


def test_weights_that_differ_later_are_told_with_the_step(good, with_value):
    def later(value):
        seen = [
            step | {"weights": [w + 1e-4 * (n >= 4) for w in step["weights"]]}
            for n, step in enumerate(value["seen"])
        ]
        return value | {"seen": seen}

    run = with_value(good, 1, later)
    assert ALIKE(run) is None
    assert STEPS(run).hint == "weights"
    assert "after step 4, rank 1's" in STEPS(run).message


@pytest.mark.parametrize("kept", [0, 1, -1])
def test_rates_that_are_missing_do_not_rise(good, with_value, kept):
    run = with_value(good, 1, lambda value: value | {"seen": value["seen"][:kept]})
    assert SAMPLES(run) is None
    assert RATE(run).hint == "batch"


def test_metrics_that_are_nobodys_or_malformed_are_told(good, with_value):
    def with_history(history):
        return with_value(good, 1, lambda value: value | {"history": history})

    history = good.values[1]["history"]
    assert METRICS(with_history(history | {"loss": [0.1] * EPOCHS})).hint == "metrics"
    for malformed in (None, {}, history | {"loss": None}, history | {"loss": [0.1]}):
        assert METRICS(with_history(malformed)).hint == "history"


def test_steps_and_length_fit_all_world_sizes():
    assert all(LENGTH % (BATCH * world_size) == 0 for world_size in (1, 2, 3, 4))
