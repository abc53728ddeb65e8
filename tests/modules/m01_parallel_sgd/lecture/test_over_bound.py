"""Times over their lower bound: both can be read back from the axes."""

import pytest

from hpml.modules.m01_parallel_sgd.lecture.over_bound import over_bound
from hpml.predict.draw import Series


def bound(size):
    return 1e-8 * size


def test_points_and_model_are_divided_by_the_bound_of_their_panel():
    ring = Series({1e4: 3e-4, 1e6: 2e-2}, lambda size: 2e-4 + bound(size))
    figure = over_bound(
        {"fast": {"ring": ring}, "slow": {"ring": ring}},
        {"fast": bound, "slow": lambda size: 2 * bound(size)},
    )
    for axes, share in zip(figure.axes, (1, 2), strict=True):
        model, points = axes.lines[:2]
        assert list(points.get_xdata()) == [1e4, 1e6]
        assert list(points.get_ydata()) == pytest.approx([3 / share, 2 / share])
        assert model.get_ydata()[0] == pytest.approx(3 / share)
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert figure.axes[0].get_ylabel() == "time over the lower bound"
    assert "1 ×" in [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_points_without_a_model_are_joined():
    axes = over_bound({"a": {"x": Series({1e3: 1.0, 1e6: 1.0})}}, {"a": bound}).axes[0]
    assert axes.lines[0].get_linestyle() == "-"
    assert len(axes.lines[0].get_xdata()) == 2


def test_each_name_is_in_the_legend_once_and_series_differ_without_colour():
    one = Series({1e3: 1.0, 1e6: 1.0}, bound)
    figure = over_bound({"a": {"x": one, "y": one}, "b": {"y": one}}, {"a": bound, "b": bound})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x", "y"]
    markers = [line.get_marker() for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert len(set(markers)) == 3  # two series and the line at 1, which has none


def test_nothing_measured_is_refused():
    with pytest.raises(ValueError, match="no series has a measured point"):
        over_bound({"a": {"x": Series({}, bound)}}, {"a": bound})
