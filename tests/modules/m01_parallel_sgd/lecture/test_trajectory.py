"""Paths over a loss: every update a dot, as stale as it was."""

import numpy as np
import pytest

from hpml.modules.m01_parallel_sgd.lecture.trajectory import plane_loss, trajectories
from hpml.modules.m01_parallel_sgd.lecture.updates import Update

START = (4.0, 3.0)


def bowl(first, second):
    return first**2 + 0.3 * second**2


def log(*stale):
    return [Update(0.1 * k, 0, s, (3.0 - k, 2.0 - k)) for k, s in enumerate(stale)]


def dots(axes):
    return axes.collections[-1]


def test_each_run_has_a_panel_with_its_updates_in_order():
    rows = {"in step": {"1 worker": log(0, 0)}, "out of step": {"1 worker": log(0, 3, 1)}}
    figure = trajectories(bowl, START, rows, title="paths")
    first, second = figure.axes[:2]
    assert dots(first).get_offsets().tolist() == [[3, 2], [2, 1]]
    assert dots(second).get_array().tolist() == [0, 3, 1]
    assert first.get_ylabel() == "in step\nsecond weight"
    assert [axes.get_title() for axes in (first, second)] == ["1 worker", "1 worker"]


def test_the_staler_the_darker_and_the_larger():
    figure = trajectories(bowl, START, {"run": {"a": log(0, 2, 6)}})
    marks = dots(figure.axes[0])
    lightness = [sum(colour[:3]) for colour in marks.to_rgba(marks.get_array())]
    assert lightness == sorted(lightness, reverse=True)
    assert len(set(lightness)) == 3
    assert sorted(set(marks.get_sizes())) == list(marks.get_sizes())


def test_the_scale_names_whole_numbers_up_to_the_stalest():
    figure = trajectories(bowl, START, {"run": {"a": log(0, 1, 5)}})
    labels = [label.get_text() for label in figure.axes[-1].get_yticklabels()]
    assert labels == ["0", "1", "2", "3", "4-5"]
    assert "staleness" in figure.axes[-1].get_ylabel()


def test_without_stale_updates_there_is_no_scale():
    figure = trajectories(bowl, START, {"run": {"a": log(0, 0)}})
    assert len(figure.axes) == 1


def test_a_row_with_fewer_runs_leaves_its_place_empty():
    rows = {"three": {"a": log(0), "b": log(0), "c": log(0)}, "one": {"a": log(0)}}
    visible = [axes.get_visible() for axes in trajectories(bowl, START, rows).axes]
    assert visible == [True, True, True, True, False, False]


def test_the_loss_of_a_plane_differs_from_half_the_mean_squared_error_by_a_constant():
    numbers = np.random.default_rng(0)
    inputs, outputs = numbers.normal(size=(50, 2)), numbers.normal(size=50)
    loss = plane_loss(inputs, outputs)

    def difference(first, second):
        error = inputs @ [first, second] - outputs
        return (error**2).mean() / 2 - loss(first, second)

    assert difference(0.3, -2.0) == pytest.approx(difference(4.0, 1.5))
