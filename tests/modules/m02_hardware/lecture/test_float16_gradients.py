"""Gradients rounded to float16, with the loss scaled and not."""

import math

import pytest
import torch

from hpml.modules.m02_hardware.lecture import float16_gradients as f16
from hpml.modules.m02_hardware.lecture.float16_gradients import Run


@pytest.fixture(autouse=True)
def few_images(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(64, 3, 16, 16, generator=generator)
    labels = torch.randint(0, 10, (64,), generator=generator)
    monkeypatch.setattr(f16, "BATCH", 32)
    monkeypatch.setattr(f16, "_images", lambda steps: (images, labels))


def test_a_power_of_two_changes_nothing_but_what_is_lost():
    wide, scaled = f16.train(None), f16.train(2.0**12)
    assert wide.losses[0] == scaled.losses[0]
    assert scaled.losses[1] == pytest.approx(wide.losses[1], rel=1e-3)
    assert scaled.skipped == 0


def test_without_scaling_back_a_step_would_be_longer():
    """The first step's update is the same with any scale that loses nothing."""
    assert f16.train(2.0**8).losses[1] == pytest.approx(f16.train(2.0**12).losses[1], rel=1e-3)


def test_a_loss_that_is_scaled_too_far_overflows_and_every_step_is_skipped():
    run = f16.train(2.0**40)
    assert run.skipped == len(run.losses) == 2
    assert all(math.isfinite(loss) for loss in run.losses)


def test_a_loss_that_is_scaled_down_loses_gradients():
    assert len(f16.train(2.0**-16).gradients) < 0.1 * len(f16.train(None).gradients)


def test_lost_counts_what_float16_rounds_to_zero():
    run = Run([1.0], 0, torch.tensor([2.0**-26, 2.0**-24, -(2.0**-26), 1.0]))
    assert (run.lost(), run.lost(4.0)) == (0.5, 0.0)


def runs():
    found = {
        None: Run(
            [2.3, *[2.0] * 8], 0, torch.cat([torch.full((95,), 1e-3), torch.full((5,), 1e-9)])
        ),
        2.0**-16: Run([2.3] * 9, 0, torch.ones(1)),
        1.0: Run([2.3, *[2.0] * 8], 0, torch.ones(1)),
        2.0**16: Run([2.3, *[2.0] * 8], 0, torch.ones(1)),
        2.0**24: Run([2.3] * 9, 9, torch.ones(1)),
    }
    return found


def test_the_smallest_and_the_largest_scale_that_train_as_float32_does():
    assert f16.scales(runs(), 2.0**16) == (True, (1, 2.0**16), 0, 2.0**-16, 2.0**24)
    assert [f16.power(scale) for scale in (1, 2.0**-16)] == ["2^0", "2^-16"]


def test_a_scale_between_two_good_ones_has_to_be_good():
    found = runs()
    found[2.0**8] = Run([2.3, *[2.015] * 8], 0, torch.ones(1))
    assert not f16.scales(found, 2.0**16).held
    found[2.0**-8] = found.pop(2.0**8)
    assert f16.scales(found, 2.0**16)[:2] == (True, (1, 2.0**16))


def test_it_does_not_hold_where_scaling_did_not_help():
    found = runs()
    found[2.0**16] = found[2.0**-16]
    assert not f16.scales(found, 2.0**16).held


def test_the_picture_marks_where_float16_ends():
    sizes, loss = f16.picture(runs(), 2.0**16, title="t").axes
    assert {t.get_text() for t in sizes.texts} >= {"becomes 0", "full precision"}
    assert loss.lines[0].get_xdata().tolist() == [-16, 0, 16, 24]
