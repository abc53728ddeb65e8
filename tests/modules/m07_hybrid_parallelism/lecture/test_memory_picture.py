"""The picture of what ranks hold shows each rank's peak, by kind and by the kernel."""

import pytest

from hpml.modules.m07_hybrid_parallelism.lecture.memory_picture import memory_picture
from hpml.ranks.evidence import KINDS, Evidence, LiveTensors, RankEvidence

MB = 10**6


def evidence(*peaks):
    ranks = tuple(
        RankEvidence(
            number,
            "returned",
            peak_bytes=peak and peak * MB + 5,
            live=LiveTensors(dict(zip(KINDS, (4, 3, 2, 1, 0), strict=True)), {}),
        )
        for number, peak in enumerate(peaks)
    )
    return Evidence(len(ranks), ranks, 1.0)


def words(figure):
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    return texts, [text.get_text() for text in figure.legends[0].get_texts()]


def test_there_is_a_panel_for_each_launch_and_a_bar_for_each_kind():
    figure = memory_picture({"one": evidence(10, 20), "two": evidence(30)}, title="A message")
    assert [axes.get_title("left") for axes in figure.axes] == ["one", "two"]
    assert len(figure.axes[0].patches) >= 2 * len(KINDS)
    texts, legend = words(figure)
    assert texts == ["10 B"] * 3
    assert legend == [*KINDS, "all memory, by the kernel"]
    assert figure.axes[1].get_xlim()[1] > 30
    assert "(MB)" in figure.axes[1].get_xlabel()


def test_without_the_kernels_count_it_is_drawn_without():
    _, legend = words(memory_picture({"one": evidence(None)}))
    assert legend == [*KINDS]


def test_ranks_whose_tensors_were_not_counted_cannot_be_drawn():
    with pytest.raises(ValueError, match="one: its tensors were not counted"):
        memory_picture({"one": Evidence(1, (RankEvidence(0, "returned"),), 1.0)})
