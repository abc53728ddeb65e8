"""The bubble drawn: each measured point beside the formula for its number of ranks."""

import pytest

from hpml.modules.m07_hybrid_parallelism.lecture.bubble_picture import bubble_picture


def test_points_are_what_was_measured_and_lines_are_the_formula():
    axes = bubble_picture({"measured, p = 4": (4, {1: 0.8, 16: 0.2})}, title="idle").axes[0]
    line, points = axes.lines
    assert line.get_ydata()[0] == pytest.approx(75)
    assert line.get_ydata()[-1] == pytest.approx(100 * 3 / 19)
    assert list(points.get_xdata()) == [1, 16]
    assert list(points.get_ydata()) == pytest.approx([80, 20])
    assert axes.get_ylabel() == "idle (% of the ranks' time)"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["formula, p = 4", "measured, p = 4"]
