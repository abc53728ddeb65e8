"""The Overview as numbers, and the views as pictures."""

import gzip

import pytest

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture.views import FOLDER, VIEWS, overview, show
from hpml.record.kept import SHIPPED
from hpml.trace.profiler import intervals
from hpml.trace.profiler.read import read


def test_parts_of_a_step_are_shares_that_add_up(tmp_path):
    path = tmp_path / "rank0.pt.trace.json"
    path.write_bytes(gzip.decompress((SHIPPED / "steps_good.pt.trace.json.gz").read_bytes()))
    parts = overview(tmp_path)
    assert sum(parts.values()) == pytest.approx(1, abs=0.001)
    trace = read(path)
    kernels = trace.of("kernel")
    busy = intervals.union(trace.start[kernels], trace.end[kernels])
    inside = intervals.clip(busy, trace.steps[0].start, trace.steps[-1].end)
    whole = trace.steps[-1].end - trace.steps[0].start
    assert parts["Kernel"] == pytest.approx(intervals.length(inside) / whole, rel=0.02)
    assert 0 < parts["Memcpy"] < parts["Kernel"]


def test_a_folder_without_a_trace_or_with_a_broken_one_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no profile"):
        overview(tmp_path)
    (tmp_path / "rank0.pt.trace.json").write_text("{")
    with pytest.raises(UserError, match="cut off, or no JSON"):
        overview(tmp_path)


def test_each_view_has_its_picture_and_each_picture_says_what_is_seen(capsys):
    assert {path.stem for path in FOLDER.glob("*.png")} == set(VIEWS)
    show("overview")
    assert capsys.readouterr().out
