"""Pictures of a program fixed step by step, and of a profiler's schedule."""

import pytest
from torch.profiler import schedule

from hpml.modules.m03_profiling.lecture import fixed_picture, schedule_picture
from hpml.modules.m03_profiling.lecture.fixed_picture import Stage
from hpml.trace.profiler.shares import Shares


def stage(name, time):
    return Stage(name, Shares(0.5, 0.1, 0.1, 0.2, 0.05, 0.0, 0.05, 0.0), time)


def test_the_waterfall_begins_and_ends_whole_and_saves_between():
    figure = fixed_picture.picture([stage("slow", 1.0), stage("+ one", 0.4), stage("+ two", 0.3)])
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()][-1] == "all together"
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in right.patches]
    assert bars == [(0, 100), (0, 30), (100, 40), (40, 30)]
    assert {text.get_text() for text in right.texts} == {"1.0 ×", "2.5 ×", "3.3 ×"}


def test_the_shares_of_each_stage_fill_its_row():
    left = fixed_picture.picture([stage("slow", 1.0), stage("+ one", 0.4)]).axes[0]
    assert sum(bar.get_width() for bar in left.patches) == pytest.approx(2 * 100)


def test_one_stage_has_no_before_and_after():
    with pytest.raises(ValueError, match="1 stages"):
        fixed_picture.picture([stage("slow", 1.0)])


def test_what_a_schedule_records_is_what_pytorch_says_of_it():
    window = schedule(skip_first=1, wait=2, warmup=1, active=3, repeat=2)
    assert schedule_picture.recorded(window, 16) == ([4, 5, 6, 10, 11, 12], 2)
    colours = {bar.get_facecolor() for bar in schedule_picture.picture(window, 16).axes[0].patches}
    assert len(colours) == 4
