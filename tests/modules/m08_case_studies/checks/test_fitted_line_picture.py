"""The picture of a fitted line: what is marked, and a line that is below 0 in part."""

import pytest

from hpml.modules.m08_case_studies.checks._fitted_line_picture import fitted_line

SIZES = [100, 10_000, 1_000_000]
SECONDS = [[1e-5, 2e-5], [3e-5, 2e-5], [1e-3, 4e-3]]


def test_the_quickest_repetition_is_drawn_over_the_line_and_disturbed_sizes_are_marked():
    figure = fitted_line(SIZES, SECONDS, lambda n: 1e-5 + 1e-9 * n, disturbed=[1], title="a title")
    _, ratios = figure.axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in ratios.lines}
    assert drawn["undisturbed"] == pytest.approx([1e-5 / 1.01e-5, 1e-3 / 1.01e-3])
    assert drawn["disturbed"] == pytest.approx([1.0])
    assert figure.get_suptitle() == "a title"


def test_a_line_that_is_below_0_is_drawn_where_it_is_not():
    figure = fitted_line(SIZES, SECONDS, lambda n: 1e-9 * n - 1e-5)
    figure.draw_without_rendering()
    times, ratios = figure.axes
    line = next(one for one in times.lines if one.get_color() == "black")
    assert min(line.get_ydata()) > 0
    assert [len(one.get_ydata()) for one in ratios.lines][:2] == [1, 0]
    assert "below 0" in ratios.get_title()


def test_a_line_that_is_nowhere_above_0_raises_nothing():
    fitted_line(SIZES, SECONDS, lambda n: -1.0).draw_without_rendering()
