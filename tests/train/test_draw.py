"""Pictures of training runs, read back from their axes."""

import math

import pytest
from matplotlib.colors import to_hex

from hpml.train import draw
from hpml.train.history import Epoch


def epochs(*test_accuracies):
    return [
        Epoch(
            epoch=number,
            train_loss=2.0 / number,
            train_accuracy=0.5,
            test_loss=1.0,
            test_accuracy=accuracy,
            lr=0.1,
            seconds=1.0,
            images_per_second=100.0,
        )
        for number, accuracy in enumerate(test_accuracies, 1)
    ]


def test_shares_show_each_image_where_it_is_and_mark_what_was_seen_before():
    figure = draw.shares({"epoch 0": [[3, 1], [0, 3], [5, 6]]}, title="T")
    (panel,) = figure.axes
    texts = {(text.get_position()): text for text in panel.texts}
    assert {where: text.get_text() for where, text in texts.items()} == {
        (0, 0): "3",
        (0, 1): "0",
        (0, 2): "5",
        (1, 0): "1",
        (1, 1): "3",
        (1, 2): "6",
    }
    assert [where for where, text in texts.items() if text.get_fontweight() == "bold"] == [(1, 1)]
    (mark,) = panel.patches
    # Its cell: step 1, and the middle third of the panel, which rank 1 has.
    assert [*mark.get_xy(), mark.get_width(), mark.get_height()] == pytest.approx(
        [0.5, 1 / 3, 1, 1 / 3]
    )
    assert [label.get_text() for label in panel.get_yticklabels()] == ["rank 0", "rank 1", "rank 2"]


def test_shares_have_a_panel_for_each_table():
    figure = draw.shares({"a": [[0]], "b": [[1]]}, title="T")
    assert [panel.get_title() for panel in figure.axes] == ["a", "b"]


def test_speeds_are_as_long_as_they_are_fast_and_the_ideal_is_in_sight():
    figure = draw.speeds({"1 rank": 100.0, "2 ranks": 150.0}, ideal=200.0, title="T")
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [100, 150]
    assert axes.lines[0].get_xdata()[0] == 200
    assert axes.get_xlim()[1] > 200
    assert "images/s" in axes.get_xlabel()


def test_a_number_is_in_its_bar_or_beside_one_that_is_too_short():
    rates = {"long": 90.0, "short": 5.0, "longer": 100.0}
    (axes,) = draw.speeds(rates, ideal=100.0, title="T", colours=("red", "red", "blue")).axes
    shown = [(text.get_text().strip(), text.get_ha()) for text in axes.texts]
    assert shown == [("90", "right"), ("5", "left"), ("100", "right")]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == ["#ff0000"] * 2 + ["#0000ff"]


def test_accuracies_are_per_cent():
    (axes,) = draw.accuracies(epochs(0.2, 0.6), title="T").axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert lines["test"] == pytest.approx([20, 60])
    assert lines["training"] == pytest.approx([50, 50])
    assert lines["guessing"] == pytest.approx([10, 10])
    assert "%" in axes.get_ylabel()


def test_losses_tell_their_runs_apart_by_colour_marker_and_style():
    runs = {name: epochs(0.1, 0.2, 0.3) for name in "abcd"}
    (axes,) = draw.losses(runs, title="T").axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[2.0, 1.0, 2 / 3]] * 4
    looks = [(to_hex(x.get_color()), x.get_marker(), x.get_linestyle()) for x in axes.lines]
    assert all(len(set(kind)) == 4 for kind in zip(*looks, strict=True))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list("abcd")


def test_every_picture_has_the_title_it_is_given():
    figures = [
        draw.speeds({"a": 1.0}, ideal=1.0, title="T"),
        draw.accuracies(epochs(0.1), title="T"),
        draw.losses({"a": epochs(0.1)}, title="T"),
    ]
    assert [figure.axes[0].get_title() for figure in figures] == ["T"] * 3
    assert draw.shares({"a": [[0]]}, title="T").get_suptitle() == "T"


def test_a_run_that_diverges_leaves_the_picture_at_a_cross_and_is_called_so():
    runs = {
        "good": [(1, 2.0), (2, 1.0), (4, 0.5)],
        "bad": [(1, 2.0), (2, 90.0), (4, math.nan)],
        "lost": [(1, math.nan), (2, math.nan), (4, math.nan)],
    }
    figure = draw.descents(runs, "T", most=30)
    (axes,) = figure.axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert drawn["good"] == [[1, 2.0], [2, 1.0], [4, 0.5]]
    assert drawn["bad: diverges"] == [[1, 2.0], [2, 30]]
    assert drawn["lost: diverges"] == [[1, 30]]
    crosses = [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "X"]
    assert crosses == [[[2, 30]], [[1, 30]]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("samples seen", "training loss")


def test_a_run_that_comes_back_into_the_picture_has_not_diverged():
    figure = draw.descents({"catapult": [(1, 2.0), (2, 90.0), (4, 1.0)]}, "T", most=30)
    (line,) = figure.axes[0].lines
    assert (line.get_label(), line.get_ydata().tolist()) == ("catapult", [2.0, 30, 1.0])
