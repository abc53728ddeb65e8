"""Parts of tensors, and the ranks that hold them."""

import pytest

from hpml.modules.m07_hybrid_parallelism.lecture.layout_picture import draw
from hpml.modules.m07_hybrid_parallelism.lecture.layouts import IllegalLayout

MESH = {"rows": 2, "cols": 2}
TENSORS = {"x": {"batch": 4, "inputs": 6}, "w": {"inputs": 6, "hidden": 8}}


def test_each_part_names_its_ranks():
    figure = draw({"both": {"batch": "rows", "hidden": "cols"}}, TENSORS, MESH)
    x, w = figure.axes
    assert [text.get_text() for text in x.texts] == ["0, 1", "2, 3"]
    assert [patch.get_height() for patch in x.patches] == [0.5, 0.5]
    assert [text.get_text() for text in w.texts] == ["0, 2", "1, 3"]
    assert [patch.get_width() for patch in w.patches] == [0.5, 0.5]


def test_what_is_not_split_is_on_all_ranks():
    _, w = draw({"data": {"batch": "rows"}}, TENSORS, MESH).axes
    assert [text.get_text() for text in w.texts] == ["all"]


def test_what_cannot_be_drawn():
    with pytest.raises(IllegalLayout):
        draw({"twice": {"batch": "rows", "inputs": "rows"}}, TENSORS, MESH)
    with pytest.raises(ValueError, match="b has 1 dimensions"):
        draw({"data": {}}, {"b": {"hidden": 8}}, MESH)
