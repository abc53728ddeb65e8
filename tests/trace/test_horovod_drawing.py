"""Horovod's timelines drawn: bars that can be read back from the axes."""

from dataclasses import replace

import pytest
from matplotlib.colors import to_rgba

from hpml.trace.horovod_drawing import LOOKS, timeline
from hpml.trace.horovod_timeline import Operation, Span
from hpml.trace.horovod_timeline_file import parse

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
    assert bars(figure, "turn") == [(0, 0.02, 0.04)]  # the others' follows at once
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
    assert shown == [LOOKS[phase][2] for phase in ("negotiate", "turn", "copy", "transfer")]


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


def late_for_the_first_round(tensors):
    """Half of the tensors are asked for by rank 1 only when those before them have been sent."""
    file = Writer()
    names = [f"gradient {number}" for number in range(tensors)]
    early, late = names[: tensors // 2], names[tensors // 2 :]
    for name in late:
        file.event("B", name, "NEGOTIATE_ALLREDUCE")
        file.event("X", name, "0")
    file.now += 1_000
    file.reduce(dict.fromkeys(early, 1), us=9_000)
    for name in late:
        file.event("X", name, "1")
        file.event("E", name)
    file.reduce(dict.fromkeys(late, 1), us=9_000)
    return parse(file.content)


def test_a_long_negotiation_is_explained_on_the_picture():
    [note] = timeline(late_for_the_first_round(40)).axes[0].texts
    assert note.get_text() == (
        "20 tensors: 10.0 ms of negotiation;\nfor 9.0 ms of it, others are being sent"
    )
    across, down = note.xy
    assert (across, down) == pytest.approx((5.0, 9.5), abs=0.1)  # amid the block: it began first


def test_a_short_negotiation_has_its_words_beside_it():
    trace = late_for_the_first_round(40)
    begin = max(o.begin for o in trace.operations)
    late = Operation("last", "ALLREDUCE", activities=(Span("GLOO_ALLREDUCE", 0.2, 0.21),))
    longer = replace(trace, operations=(*trace.operations, late))
    assert begin < 0.2
    [note] = timeline(longer).axes[0].texts
    assert note.get_text().startswith("20 tensors: 10.0 ms of negotiation")
    assert note.get_position() == (0.98, 0.95)
    assert note.arrow_patch is not None
    [beside] = timeline(trace).axes[0].texts
    assert beside.arrow_patch is None


def test_a_picture_with_labels_or_without_a_long_negotiation_has_no_note(fused):
    assert list(timeline(late_for_the_first_round(10)).axes[0].texts) == []
    file = Writer()
    for number in range(40):
        file.negotiate(f"gradient {number}", [0, 1])
    file.reduce({f"gradient {number}": 1 for number in range(40)}, us=100)
    assert list(timeline(parse(file.content)).axes[0].texts) == []


def test_long_timelines_are_drawn_in_seconds():
    file = Writer()
    file.reduce({"a": 1}, us=3_000_000)
    figure = timeline(parse(file.content))
    assert figure.axes[0].get_xlabel() == "time (s)"
    assert bars(figure, "transfer") == [(0, 0, 3)]


def test_a_timeline_without_anything_is_refused():
    with pytest.raises(ValueError, match="no tensor to draw: 0 operations"):
        timeline(parse(b"[]"))
