"""The pictures of what is predicted: every point is drawn, parts add up, the title is computed."""

import pytest

from hpml.predict.published_predicted import MEDIAN, predict_table
from hpml.predict.scaling import Input, Level, Network, Training
from hpml.predict.scaling_fit import Point, fit
from hpml.predict.scaling_picture import predicted_picture, scaling_picture

ETHERNET = predict_table("azure-v100-resnet50-tcp")
UNSEEN = [Point(row.row.ranks, row.published) for row in ETHERNET.test]
RANKS = [1, 2, 4, 8, 16, 32]


def marked(axes) -> dict[str, list[tuple[float, float]]]:
    return {
        line.get_label(): list(zip(*line.get_data(), strict=True))
        for line in axes.lines
        if line.get_marker() not in ("None", None, "")
    }


def test_points_are_images_per_second_of_each_rank():
    curve, _ = scaling_picture(ETHERNET.fitted, RANKS, UNSEEN).axes
    points = marked(curve)
    assert points["published, not seen by the fit"] == [
        (one.ranks, one.images_per_s / one.ranks) for one in UNSEEN
    ]
    assert len(points["published, fitted"]) == len(ETHERNET.fitted.points)
    assert curve.get_ylim()[0] == 0


def test_without_points_none_are_drawn_and_they_are_named_by_their_origin():
    bare = fit(ETHERNET.fitted.training, [])
    assert marked(scaling_picture(bare, RANKS).axes[0]) == {}
    curve = scaling_picture(ETHERNET.fitted, RANKS, points="measured").axes[0]
    assert list(marked(curve)) == ["measured, fitted"]


def test_the_parts_of_a_step_add_up():
    _, parts = scaling_picture(ETHERNET.fitted, RANKS).axes
    top = max(bar.get_y() + bar.get_height() for bar in parts.patches)
    assert top == pytest.approx(1e3 * ETHERNET.fitted.predict(32).step.seconds)
    assert [tick.get_text() for tick in parts.get_xticklabels()] == [str(n) for n in RANKS]


def test_the_title_names_the_largest_loss():
    figure = scaling_picture(ETHERNET.fitted, RANKS)
    share = ETHERNET.fitted.predict(32).efficiency
    assert figure.get_suptitle() == (
        f"Each of 32 ranks keeps {share:.0%} of its images/s; "
        "most is lost to communication that nothing hides"
    )


def test_input_is_drawn_where_it_counts():
    given = ETHERNET.fitted.training
    slow = Training(given.model, 100.0, 10, given.network, input=Input(shared=200.0))
    _, parts = scaling_picture(fit(slow, []), [1, 8]).axes
    assert "waiting for input" in parts.get_legend_handles_labels()[1]
    assert "most is lost to waiting for input" in parts.figure.get_suptitle()


def test_one_number_of_ranks_is_a_picture_too():
    network = Network((Level(None, ETHERNET.fitted.training.network.levels[0].cost),))
    training = Training(ETHERNET.fitted.training.model, 100.0, 10, network)
    scaling_picture(fit(training, []), [4]).canvas.draw()


def test_all_tables_are_points_about_a_diagonal():
    [axes] = predicted_picture([ETHERNET]).axes
    [_diagonal, met, missed] = axes.lines
    assert len(met.get_xdata()) == len(UNSEEN)
    assert len(missed.get_xdata()) == 0
    for published, predicted in zip(*met.get_data(), strict=True):
        assert abs(predicted / published - 1) < 2 * MEDIAN
    assert axes.get_title(loc="left") == "1 of 1 tables predicted"
