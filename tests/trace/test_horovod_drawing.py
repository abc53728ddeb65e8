"""Horovod's timelines drawn: bars that can be read back from the axes."""

import pytest
from matplotlib.colors import to_rgba

from hpml.trace.horovod_drawing import LOOKS, timeline
from hpml.trace.horovod_timeline import parse

from .horovod_file import Writer


def bars(figure, phase):
    """Of each bar of a phase: row, from and to in the axis' unit."""
    colour = to_rgba(LOOKS[phase][0])
    return [
        (
            round(bar.get_y() + bar.get_height() / 2),
            round(bar.get_x(), 3),
            round(bar.get_x() + bar.get_width(), 3),
        )
        for bar in figure.axes[0].patches
        if bar.get_facecolor() == colour
    ]


def labels(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


@pytest.fixture
def fused():
    file = Writer()
    file.now = 5000
    file.negotiate("a", [0, 1])  # 20 µs each
    file.negotiate("b", [0, 1])
    file.reduce({"a": 500, "b": 1000}, us=100)
    file.negotiate("c", [0, 1])
    file.reduce({"c": 2}, us=200)
    return file


def test_each_tensor_has_a_row_with_what_it_went_through(fused):
    figure = timeline(parse(fused.content))
    assert labels(figure) == ["a", "b", "c"]
    assert bars(figure, "negotiate") == [(0, 0, 0.02), (1, 0.02, 0.04), (2, 0.15, 0.17)]
    assert bars(figure, "transfer") == [(0, 0.045, 0.145), (1, 0.045, 0.145), (2, 0.17, 0.37)]
    assert bars(figure, "copy") == [
        (row, *at) for row in (0, 1) for at in ((0.04, 0.045), (0.145, 0.15))
    ]
    assert figure.axes[0].get_xlabel() == "time (ms)"


def test_a_collective_has_one_row_for_all_its_tensors(fused):
    figure = timeline(parse(fused.content), per="collective")
    assert labels(figure) == ["2 tensors, 6 kB", "c, 8 B"]
    assert bars(figure, "negotiate") == [(0, 0, 0.04), (1, 0.15, 0.17)]
    assert bars(figure, "transfer") == [(0, 0.045, 0.145), (1, 0.17, 0.37)]


def test_a_barrier_is_no_tensor(fused):
    fused.negotiate("barrier.noname", [0, 1], kind="BARRIER")
    assert labels(timeline(parse(fused.content))) == ["a", "b", "c"]


def test_ranks_that_ask_are_ticks(fused):
    axes = timeline(parse(fused.content)).axes[0]
    ticks = [segment[0][0] for group in axes.collections for segment in group.get_segments()]
    assert ticks == pytest.approx([0, 0.01, 0.02, 0.03, 0.15, 0.16])


def test_the_legend_has_what_is_drawn_and_no_more(fused):
    figure = timeline(parse(fused.content))
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == [LOOKS[phase][2] for phase in ("negotiate", "copy", "transfer")]


def test_what_the_file_does_not_end_reaches_the_edge_dashed():
    file = Writer()
    file.reduce({"a": 1}, us=100)
    file.event("B", "b", "ALLREDUCE")
    file.event("B", "b", "GLOO_ALLREDUCE")
    figure = timeline(parse(file.content[:-5]))
    assert len(bars(figure, "transfer")) == 1
    figure = timeline(parse(file.content[:-1]))
    axes = figure.axes[0]
    assert bars(figure, "transfer")[1] == pytest.approx((1, 0.1, axes.get_xlim()[1]), abs=1e-3)
    assert [bar.get_linestyle() for bar in axes.patches] == ["-", "--"]


def test_many_tensors_are_drawn_as_a_band_without_labels():
    file = Writer()
    file.reduce({f"gradient {number}": 1 for number in range(200)}, us=100)
    figure = timeline(parse(file.content))
    assert labels(figure) == []
    assert figure.axes[0].get_ylabel() == "200 tensors"
    assert len(bars(figure, "transfer")) == 200
    assert figure.get_figheight() < 6


def test_long_timelines_are_drawn_in_seconds():
    file = Writer()
    file.reduce({"a": 1}, us=3_000_000)
    figure = timeline(parse(file.content))
    assert figure.axes[0].get_xlabel() == "time (s)"
    assert bars(figure, "transfer") == [(0, 0, 3)]


def test_a_timeline_without_anything_is_refused():
    with pytest.raises(ValueError, match="no tensor to draw: 0 operations"):
        timeline(parse(b"[]"))
