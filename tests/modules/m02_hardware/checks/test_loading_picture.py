"""Reads and computations of a loop, drawn."""

import pytest

from hpml.modules.m02_hardware.checks._loading_picture import loading_picture


def test_each_read_and_each_computation_has_a_box_with_its_number():
    figure = loading_picture([(1.0, 1.03), (1.03, 1.06)], [(1.03, 1.08)], title="two reads")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["1", "2", "1"]
    boxes = [collection.get_paths()[0].get_extents() for collection in axes.collections]
    assert [(round(box.x0), round(box.x1)) for box in boxes] == [(0, 30), (30, 60), (30, 80)]
    assert "ms" in axes.get_xlabel()
    assert axes.get_title(loc="left") == "two reads"


def test_without_a_read_there_is_nothing_to_draw():
    with pytest.raises(ValueError, match="nothing was read"):
        loading_picture([], [], title="")
