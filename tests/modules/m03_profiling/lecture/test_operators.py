"""Operators: what is inside what, self times that add up, totals that count a call once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile, schedule

from hpml.modules.m03_profiling.lecture.nesting import nesting
from hpml.modules.m03_profiling.lecture.operators import Operator, operators, picture, table
from hpml.modules.m03_profiling.lecture.profiling_overhead import training_step
from hpml.trace.profiler import intervals
from hpml.trace.profiler.read import read

from ....trace.planted_trace import GLOO, STREAM, Planted


def planted(tmp_path):
    made = Planted()
    made.event("aten::linear", 0, 100, **{"Input Dims": [[4, 2]]})
    made.event("aten::addmm", 10, 80, **{"Input Dims": [[4, 2]]})
    made.event("aten::mm", 20, 50)
    made.event("aten::linear", 200, 300, **{"Input Dims": [[8, 2]]})
    made.event("aten::linear", 210, 260, **{"Input Dims": [[8, 2]]})  # calls itself
    made.event("aten::mm", 10, 80, tid=GLOO)  # on another thread, and so inside nothing
    made.event("sgemm", 30, 90, "kernel", STREAM, correlation=1)
    return read(made.write(tmp_path / "trace.json"))


def test_what_is_inside_what(tmp_path):
    trace = planted(tmp_path)
    found = nesting(trace)
    around = {
        (trace.names[trace.name[i]], round(1e6 * trace.start[i]), int(trace.thread[i])): (
            trace.names[trace.name[found.parent[i]]] if found.parent[i] >= 0 else None,
            int(found.depth[i]),
        )
        for i in range(len(trace))
    }
    main = trace.main_thread
    assert around["aten::linear", 0, main] == (None, 0)
    assert around["aten::addmm", 10, main] == ("aten::linear", 1)
    assert around["aten::mm", 20, main] == ("aten::addmm", 2)
    assert around["aten::linear", 200, main] == (None, 0)  # starts after all have ended
    assert around["aten::linear", 210, main] == ("aten::linear", 1)
    assert sum(parent is None for parent, _ in around.values()) == 4


def test_self_and_total_time_and_calls(tmp_path):
    rows = {row.name: row for row in operators(planted(tmp_path))}
    counted = {
        name: (row.count, round(1e6 * row.self_seconds), round(1e6 * row.seconds))
        for name, row in rows.items()
    }
    assert counted == {
        "aten::linear": (3, 30 + 50 + 50, 200),  # the call within itself is in the total once
        "aten::mm": (2, 100, 100),
        "aten::addmm": (1, 40, 70),
    }
    assert list(rows) == ["aten::linear", "aten::mm", "aten::addmm"]  # by self time


def test_shapes_are_kept_apart_where_they_are_asked_for(tmp_path):
    rows = operators(planted(tmp_path), by_shape=True)
    linear = {row.shapes: row.count for row in rows if row.name == "aten::linear"}
    assert linear == {"[[4, 2]]": 1, "[[8, 2]]": 2}
    assert {row.shapes for row in operators(planted(tmp_path))} == {""}


@st.composite
def calls(draw, start=0, end=60, depth=3):
    """(start, end) of events on one thread, one after the other or inside each other."""
    found, now = [], start
    while now < end and draw(st.booleans()):
        begin = draw(st.integers(now, end - 1))
        now = draw(st.integers(begin + 1, end))
        found.append((begin, now))
        if depth:
            found += draw(calls(begin, now, depth - 1))
    return found


@given(calls())
def test_self_times_add_up_to_the_time_in_which_anything_ran(tmp_path_factory, found):
    made = Planted()
    for i, (start, end) in enumerate(found):
        made.event(f"aten::op{i % 3}", start, end)
    trace = read(made.write(tmp_path_factory.getbasetemp() / "calls.json"))
    rows = operators(trace)
    ran = intervals.length(intervals.union(trace.start, trace.end))
    assert sum(row.self_seconds for row in rows) == pytest.approx(ran)
    assert sum(row.count for row in rows) == len(found)
    assert all(row.self_seconds <= row.seconds + 1e-12 for row in rows)
    assert all(row.seconds <= ran + 1e-12 for row in rows)


def test_the_table_has_the_first_rows_and_the_rest_in_one():
    rows = [Operator(f"aten::op{i}", "", i, 0.001 * (4 - i), 0.01) for i in range(4)]
    lines = table(rows, limit=2).splitlines()
    assert lines[1].split() == ["aten::op0", "0", "4.00", "40.0", "%", "10.00"]
    assert lines[-1].split() == ["2", "others", "3.00", "30.0", "%"]
    assert len(table(rows).splitlines()) == 5
    assert len(table([]).splitlines()) == 1


def test_the_picture_has_two_bars_for_each_row(tmp_path):
    rows = operators(planted(tmp_path))
    axes = picture(rows, title="A message", limit=2).axes[0]
    assert [patch.get_width() for patch in axes.patches] == pytest.approx([0.2, 0.1, 0.13, 0.1])
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "aten::linear  × 3",
        "aten::mm  × 2",
    ]
    with pytest.raises(ValueError, match="no operator"):
        picture([])


def test_the_table_is_that_of_the_tensorboard_plugin(tmp_path):
    path = tmp_path / "rank0.pt.trace.json"
    step = training_step()
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=3),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(4):
            step()
            profiler.step()
    import torch_tb_profiler.plugin  # noqa: F401  before the loader, which it imports in a circle
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    data = RunProfileData.parse("rank0", None, str(path), str(tmp_path))
    data.process()
    theirs = RunGenerator("rank0", None, data).generate_run_profile().operation_table_by_name
    # It rounds to microseconds, and takes nodes of autograd with what they call.
    ours = {row.name: row for row in operators(read(path))}
    compared = [row for row in theirs["data"] if row["name"].startswith("aten::")]
    assert len(compared) > 20
    for row in compared:
        own = ours[row["name"]]
        assert row["calls"] == own.count
        assert row["host_self_duration"] == pytest.approx(1e6 * own.self_seconds, abs=1.5)
        assert row["host_total_duration"] == pytest.approx(1e6 * own.seconds, abs=1.5)
