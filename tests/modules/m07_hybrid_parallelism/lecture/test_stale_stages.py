"""Training with stale stages: where no weight is stale, it is plain SGD; else each stage lags."""

import pytest
import torch

from hpml.modules.m07_hybrid_parallelism.lecture.stale_stages import (
    Course,
    Problem,
    courses,
    courses_picture,
    flushed,
    unflushed,
)


def small(stages):
    draw = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(2, 5, 6, 3, generator=draw, dtype=torch.float64)
    start = tuple(torch.randn(stages, 3, 3, generator=draw, dtype=torch.float64))
    return Problem(inputs, targets, start)


def through(weights, given, k):
    made = given.inputs[k]
    for weight in weights[:-1]:
        made = torch.tanh(made @ weight)
    return (made @ weights[-1] - given.targets[k]).square().mean()


def loss_of(weights, given):
    return torch.stack([through(weights, given, k) for k in range(5)]).mean().item()


def test_one_stage_that_never_flushes_is_sgd_on_one_micro_batch_after_the_other():
    given = small(1)
    weight, losses = given.start[0], []
    for k in (0, 1, 2, 3, 4, 0):
        tracked = weight.clone().requires_grad_()
        weight = weight - 0.3 * torch.autograd.grad(through([tracked], given, k), tracked)[0]
        losses.append(loss_of([weight], given))
    assert unflushed(given, 0.3, 6).losses == pytest.approx(losses)
    assert unflushed(given, 0.3, 6).times == flushed(given, 0.3, 6, 1).times


def test_the_first_of_two_stages_is_one_update_behind_and_the_last_is_not():
    given = small(2)
    versions = [list(given.start)]
    for k in range(3):
        used = [versions[max(0, k - 1)][0], versions[k][1]]
        used = [weight.clone().requires_grad_() for weight in used]
        gradients = torch.autograd.grad(through(used, given, k), used)
        newer = [w - 0.3 * g for w, g in zip(versions[k], gradients, strict=True)]
        versions.append(newer)
    expected = [loss_of(weights, given) for weights in versions[1:]]
    assert unflushed(given, 0.3, 3).losses == pytest.approx(expected)


def test_a_flushed_batch_takes_the_pipelines_time_and_has_the_mean_gradient():
    given = small(2)
    used = [weight.clone().requires_grad_() for weight in given.start]
    mean = torch.stack([through(used, given, k) for k in range(5)]).mean()
    after = [w - 0.3 * g for w, g in zip(used, torch.autograd.grad(mean, used), strict=True)]
    made = flushed(given, 0.3, updates=2, micro_batches=5)
    assert made.losses[0] == pytest.approx(loss_of([w.detach() for w in after], given))
    assert made.times == (18.0, 36.0)


def test_the_loss_at_a_time_is_that_of_the_last_update_before():
    made = unflushed(small(2), 0.3, 3)
    assert made.times == (6.0, 9.0, 12.0)
    assert made.at(11.9) == made.losses[1]
    with pytest.raises(ValueError, match="the first update is made at 6"):
        made.at(5.0)


def test_the_final_loss_is_the_mean_of_the_last_quarter():
    assert Course((1.0, 2.0, 3.0, 4.0, 5.0), (9.0, 9.0, 9.0, 9.0, 2.0)).final == 2.0
    assert Course(tuple(range(8)), (9.0,) * 6 + (1.0, 2.0)).final == 1.5


def test_the_picture_has_a_panel_for_each_rate_and_a_line_for_each_training():
    given = small(2)
    rows = {rate: courses(given, rate, updates=6, batch=3) for rate in (0.1, 0.3)}
    figure = courses_picture(rows, title="stale")
    assert [axes.get_title() for axes in figure.axes] == ["learning rate 0.1", "learning rate 0.3"]
    lines = figure.axes[1].lines
    assert [tuple(line.get_ydata()) for line in lines] == [one.losses for one in rows[0.3].values()]
    assert len(figure.legends[0].get_texts()) == 3
