"""Pipelines drawn: boxes where computations are, in figures that can be read back."""

import pytest
from matplotlib.colors import to_hex

from hpml.predict.pipeline import gpipe, interleaved, played
from hpml.trace.computations import Computation
from hpml.trace.pipeline_picture import IDLE, pipeline_picture

UNIT = "forward passes of one stage"


def boxes(axes):
    """Of each computation drawn: rank, from, to."""
    return sorted(
        (
            round(patch.get_y() + patch.get_height() / 2),
            round(patch.get_x(), 3),
            round(patch.get_x() + patch.get_width(), 3),
        )
        for patch in axes.patches
        if to_hex(patch.get_facecolor()) != IDLE
    )


def test_a_box_for_each_computation_with_its_micro_batch_and_its_rank():
    done = played(gpipe(2, 2))
    figure = pipeline_picture({"GPipe": done}, unit=UNIT)
    axes = figure.axes[0]
    assert boxes(axes) == sorted((one.rank, one.start, one.end) for one in done)
    numbers = [text.get_text() for text in axes.texts if "idle" not in text.get_text()]
    assert sorted(numbers) == ["0"] * 4 + ["1"] * 4
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    assert axes.get_title(loc="left") == "GPipe: 33% idle"
    assert axes.get_xlabel() == f"time ({UNIT})"


def test_each_rank_has_its_idle_share_beside_its_row():
    done = [Computation(0, "forward", 0, 3.0, 4.0), Computation(2, "forward", 0, 4.0, 7.0)]
    axes = pipeline_picture({"": done}).axes[0]
    words = [text.get_text().strip() for text in axes.texts if "idle" in text.get_text()]
    assert words == ["75% idle", "100% idle", "25% idle"]
    assert boxes(axes) == [(0, 0, 1), (2, 1, 4)]


def test_a_short_launch_is_in_milliseconds():
    axes = pipeline_picture({"": [Computation(0, "forward", 0, 1.0, 1.02)]}).axes[0]
    assert axes.get_xlabel() == "time (ms)"
    assert boxes(axes) == [(0, 0, 20)]


def test_a_number_without_room_is_left_out():
    done = [Computation(0, "forward", 0, 0.0, 0.001), Computation(0, "backward", 0, 0.001, 1.0)]
    axes = pipeline_picture({"": done}).axes[0]
    assert len([text for text in axes.texts if text.get_text() == "0"]) == 1


def test_panels_share_their_time_axis_and_chunks_are_told_apart_in_the_legend():
    figure = pipeline_picture(
        {"GPipe": played(gpipe(2, 4)), "interleaved": played(interleaved(2, 4))}, unit=UNIT
    )
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim() == (0, 15)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        "forward, chunk 0",
        "backward, chunk 0",
        "forward, chunk 1",
        "backward, chunk 1",
        "idle",
    ]


def test_there_must_be_something_to_draw():
    with pytest.raises(ValueError, match="learner's: no rank computed anything"):
        pipeline_picture({"learner's": []})
