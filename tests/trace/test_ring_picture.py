"""The picture of holdings: squares with numbers, arrows between them, a title that is true."""

from dataclasses import replace

import pytest
from matplotlib.patches import FancyArrowPatch

from hpml.trace.holdings import Holdings, Sent
from hpml.trace.ring_picture import draw, summary

START = (({(0, 0): 1.0}, {(0, 1): 1.0}), ({(1, 0): 1.0}, {(1, 1): 1.0}))
SUM = ({(0, 0): 1.0, (1, 0): 1.0}, {(0, 1): 1.0, (1, 1): 1.0})
BOTH = (Sent(0, 1, (0, 1), True), Sent(1, 0, (0, 1), True))
SUMMED = Holdings(2, (START, (SUM, SUM)), (BOTH,))


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def arrows(figure):
    return [p for axes in figure.axes for p in axes.patches if isinstance(p, FancyArrowPatch)]


def everything(seen):
    return draw(seen, range(len(seen.states)))


def test_each_field_has_the_number_of_the_rank_whose_values_are_there():
    names = ["start", "rank 0", "rank 1", "after step 1"]
    found = [text for text in texts(everything(SUMMED)) if text not in names]
    assert found.count("0") == 2 + 4
    assert found.count("1") == 2 + 4


def test_there_is_an_arrow_for_each_message_and_a_cross_where_it_did_not_arrive():
    figure = everything(SUMMED)
    assert len(arrows(figure)) == 2
    assert not [line for axes in figure.axes for line in axes.lines]
    lost = Holdings(
        2, (START, START), ((Sent(0, 1, (0,), False),),), ("rank 0 waits in send to 1",)
    )
    figure = everything(lost)
    assert [line.get_marker() for axes in figure.axes for line in axes.lines] == ["x"]
    assert "rank 0 waits in send to 1" in figure.get_supxlabel()
    assert "stopped" in texts(figure)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({(0, 0): 2.0, (1, 0): 1.0}, "×2"),
        ({(0, 0): 0.5, (1, 0): 0.5}, "÷2"),
        ({(1, 1): 1.0}, "p1"),
        (None, "?"),
    ],
)
def test_what_is_wrong_with_a_part_stands_in_its_field(content, words):
    wrong = replace(SUMMED, states=(START, ((content, SUM[1]), SUM)))
    figure = everything(wrong)
    assert words in texts(figure)
    assert words[0] in figure.get_supxlabel()
    assert not set("×÷?") & set(everything(SUMMED).get_supxlabel())
    assert "3 of 2 × 2 parts are the whole sum" in summary(wrong)


def test_the_title_is_what_the_steps_came_to():
    assert (
        summary(SUMMED)
        == "After 1 step every rank has the whole sum; a rank sent 2 parts of n/2 bytes"
    )
    assert summary(replace(SUMMED, states=(START, START))).startswith("After 1 step 0 of 2 × 2")
    silent = Holdings(2, (START, (SUM, SUM)), ())
    assert summary(silent).startswith("No message")
    assert summary(replace(SUMMED, stuck=("rank 0 raised ValueError",))).startswith("1 of 2 ranks")


def test_many_steps_go_on_in_a_second_band_with_the_last_state_again():
    many = Holdings(2, (START,) * 9, ((),) * 8)
    figure = everything(many)
    assert len(figure.axes) == 2
    assert texts(figure).count("after step 6") == 2
