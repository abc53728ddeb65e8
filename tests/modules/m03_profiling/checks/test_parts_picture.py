"""The parts of steps over time, drawn."""

import pytest

from hpml.modules.m03_profiling.checks._parts_picture import LOOKS, parts_picture
from hpml.trace.profiler.shares import PARTS

ROWS = {
    "rank 0": [("loading", 2.0, 2.01), ("forward", 2.01, 2.03)],
    "rank 1": [("operator", 2.0, 2.02)],
}


def test_each_part_has_a_box_and_each_step_its_number_and_borders():
    figure = parts_picture(ROWS, {7: (2.0, 2.03)}, title="one step")
    (axes,) = figure.axes
    boxes = [collection.get_paths()[0].get_extents() for collection in axes.collections]
    assert [(round(box.x0), round(box.x1)) for box in boxes] == [(0, 10), (10, 30), (0, 20)]
    assert [text.get_text() for text in axes.texts] == ["step 7"]
    assert sorted(round(line.get_xdata()[0]) for line in axes.lines) == [0, 30]
    assert "ms" in axes.get_xlabel()
    assert axes.get_title(loc="left") == "one step"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["loading", "forward", "operator"]


def test_an_answer_is_a_bar_of_its_milliseconds():
    answer = {"loading": 0.01, "other": 0.02}
    figure = parts_picture(ROWS, {7: (2.0, 2.03)}, title="", answer=answer)
    bars = figure.axes[1].patches
    assert [round(bar.get_height()) for bar in bars] == [10, 20]
    assert [round(bar.get_y()) for bar in bars] == [0, 10]


def test_every_part_has_a_look():
    assert set(PARTS) <= set(LOOKS)


def test_without_a_step_there_is_nothing_to_draw():
    with pytest.raises(ValueError, match="no step"):
        parts_picture({}, {}, title="")
