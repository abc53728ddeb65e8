"""The picture of shares has a bar for each entry, which is as long as its step."""

import pytest

from hpml.modules.m03_profiling.lecture import shares_picture
from hpml.trace.profiler.shares import Shares

LOADING = Shares(0.03, 0, 0.006, 0.003, 0.0001, 0, 0.0009, hidden=0)
WAITING = Shares(0, 0, 0.006, 0.003, 0.001, 0.01, 0, hidden=0.004)


def test_there_is_a_bar_for_each_entry_and_a_number_in_each_wide_part():
    figure = shares_picture.picture({"before": LOADING, "after": WAITING}, title="A message")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["before", "after"]
    ends = [max(p.get_x() + p.get_width() for p in axes.patches if p.get_y() // 0.6 == row)
            for row in (-1, 1)]  # fmt: skip
    assert ends == pytest.approx([40, 20])
    assert [text.get_text() for text in axes.texts] == [
        "75 %",
        "15 %",
        "8 %",
        "30 %",
        "15 %",
        "50 %",
    ]
    assert axes.get_title("left") == "A message"
    assert "(ms)" in axes.get_xlabel()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [
        *("loading", "forward", "backward", "optimizer", "communication, exposed"),
        "other, and idle",
    ]


def test_hidden_communication_is_a_bar_of_its_own_and_said():
    assert "hidden" not in shares_picture.picture({"step": LOADING}).axes[0].get_xlabel()
    axes = shares_picture.picture({"step": WAITING}).axes[0]
    assert "hidden" in axes.get_xlabel()
    assert axes.patches[-1].get_width() == pytest.approx(4)


def test_nothing_cannot_be_drawn():
    with pytest.raises(ValueError, match="nothing to draw"):
        shares_picture.picture({})
