"""Predicted and measured in one picture: both can be read back from the axes."""

import pytest

from hpml.predict.amdahl import Amdahl
from hpml.predict.draw import Series, cuts, message_curves, speed_ups, strong_and_weak
from hpml.predict.parallelism import Plan


def linear(size):
    return 1e-3 + size * 1e-8


def test_points_are_the_measured_and_lines_the_predicted():
    ring = Series({1e3: 0.002, 1e6: 0.02}, linear)
    axes = message_curves({"1 Gbit/s": {"ring": ring}}).axes[0]
    line, points, _ = axes.lines
    assert list(points.get_xdata()) == [1e3, 1e6]
    assert list(points.get_ydata()) == [0.002, 0.02]
    assert line.get_ydata()[0] == pytest.approx(linear(1e3))
    assert line.get_ydata()[-1] == pytest.approx(linear(1e6))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("message (bytes)", "time (s)")
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "1 kB", "10 kB", "100 kB", "1 MB",
    ]  # fmt: skip


def test_a_series_looks_the_same_in_every_panel_and_unlike_the_others():
    one = Series({1e3: 0.002, 1e6: 0.02}, linear)
    figure = message_curves({"a": {"x": one, "y": one}, "b": {"y": one}})
    looks = [
        [(line.get_marker(), line.get_color()) for line in axes.lines if len(line.get_xdata()) == 2]
        for axes in figure.axes
    ]
    assert looks[1] == looks[0][1:]
    assert len({marker for marker, _ in looks[0]}) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x", "y"]


def test_the_impossible_is_grey_below_the_bound_and_named_once():
    one = Series({1e3: 0.002, 1e6: 0.02})
    figure = message_curves({"a": {"x": one}, "b": {"x": one}}, bounds={"a": linear, "b": linear})
    tops = [axes.collections[0].get_paths()[0].vertices[:, 1].max() for axes in figure.axes]
    assert tops == [pytest.approx(linear(1e6))] * 2
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["x", "less than the link allows"]


def test_speed_ups_stand_beside_the_ideal_and_the_simulated_are_hollow():
    strong = Series({1: 1.0, 2: 1.8, 8: 4.0}, lambda p: p**0.5)
    axes = speed_ups({"strong": strong}, simulated=[8]).axes[0]
    ideal, full, hollow, model = axes.lines
    assert list(ideal.get_xdata()) == list(ideal.get_ydata())
    assert list(full.get_ydata()) == [1.0, 1.8]
    assert (list(hollow.get_ydata()), hollow.get_markerfacecolor()) == ([4.0], "white")
    assert model.get_ydata()[-1] == pytest.approx(8**0.5)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["ideal", "strong", "strong, simulated", "strong, model"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("ranks", "speed-up")


def test_a_slow_down_has_ticks_and_hollow_points_the_name_they_are_given():
    strong = Series({1: 1.0, 2: 1.3, 4: 0.3})
    axes = speed_ups({"strong": strong}, simulated=[4], hollow_are="predicted").axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0.5", "1", "2", "4"]
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "strong, predicted"


def test_strong_and_weak_scaling_are_speed_ups_of_the_same_serial_part():
    figure = strong_and_weak({1: 1.0, 2: 0.8, 4: 0.5}, {1: 1.0, 2: 1.25}, Amdahl(0.2, 0.8))
    axes = figure.axes[0]
    _, full, hollow, model, weak, _, growing = axes.lines
    assert list(full.get_ydata()) == pytest.approx([1, 1.25])
    assert list(hollow.get_ydata()) == pytest.approx([2])
    assert model.get_ydata()[-1] == pytest.approx(1 / (0.2 + 0.8 / 4))
    assert list(weak.get_ydata()) == pytest.approx([1, 1.6])
    assert growing.get_ydata()[-1] == pytest.approx(0.2 + 0.8 * 4)
    title = "20% is not shared out: 4 ranks are at most 2.5 times as fast"
    assert axes.get_title(loc="left") == title


def test_cuts_colour_each_cell_by_its_rank_and_name_each_rank_once():
    cells = {"rows": ((0, 0), (1, 1)), "columns": ((0, 1), (0, 1)), "chess": ((0, 1), (1, 0))}
    figure = cuts([Plan(name, who, 1, 1, 0, "") for name, who in cells.items()])
    for axes, who in zip(figure.axes, cells.values(), strict=True):
        looks = {0: set(), 1: set()}
        for patch in axes.patches:
            rank = who[int(patch.get_y())][int(patch.get_x())]
            looks[rank].add((patch.get_facecolor(), patch.get_hatch()))
        assert len(axes.patches) == 4
        ((one_colour, one_hatch),), ((other_colour, other_hatch),) = looks.values()
        assert one_colour != other_colour
        assert one_hatch != other_hatch
        numbers = [text for text in axes.texts if text.get_text()]  # the others are arrows
        for text in numbers:  # stands in a cell of its rank
            x, y = text.get_position()
            assert str(who[int(y)][int(x)]) == text.get_text()
        assert sorted(text.get_text() for text in numbers) == ["0", "1"]
    assert [axes.get_title() for axes in figure.axes] == list(cells)
