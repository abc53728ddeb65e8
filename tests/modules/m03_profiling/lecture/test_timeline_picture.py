"""A step drawn: a row for each thread and level, colours by phase."""

import pytest

from hpml.modules.m03_profiling.lecture import timeline_picture
from hpml.trace.profiler.read import read

from ....trace.planted_trace import GLOO, Planted


@pytest.fixture
def trace(tmp_path):
    made = Planted()
    made.thread_name(GLOO, f"thread {GLOO} (pt_gloo_runloop)")
    for number in (1, 2):
        start = 2000 * number
        made.step(number, start, start + 1000 * number)
        made.mark("forward", start, start + 600)
        made.event("aten::linear", start + 100, start + 500)
        made.event("aten::addmm", start + 110, start + 490)
        made.event("aten::tiny", start + 501, start + 501.1)
        made.all_reduce(start + 500, start + 700)
    return read(made.write(tmp_path / "trace.json"))


def test_threads_are_rows_and_calls_lie_below_what_calls_them(trace):
    figure = timeline_picture.picture(trace, 1, title="A message")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["main thread", "gloo_runloop"]
    assert axes.get_xlim() == pytest.approx((0, 1))
    assert axes.get_xlabel() == "time in step 1 (ms)"
    texts = {text.get_text(): text.get_position() for text in axes.texts}
    assert list(texts) == ["ProfilerStep#1", "forward", "linear", "addmm", "gloo:all_reduce"]
    assert texts["addmm"] == pytest.approx((0.3, 3.46))
    assert texts["gloo:all_reduce"][1] > 4
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["forward", "communication", "operator"]


def test_the_last_step_and_only_so_many_levels(trace):
    axes = timeline_picture.picture(trace, levels=2).axes[0]
    assert axes.get_xlabel() == "time in step 2 (ms)"
    assert "linear" not in {text.get_text() for text in axes.texts}


def test_a_step_that_was_not_profiled_cannot_be_drawn(trace):
    with pytest.raises(ValueError, match="step 9 was not profiled"):
        timeline_picture.picture(trace, 9)
