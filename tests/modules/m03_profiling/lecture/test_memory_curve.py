"""Memory over time: of one device, with its peak."""

import pytest

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture.memory_curve import memory_curve, phase_at_peak, picture
from hpml.trace.profiler.read import read

from ....trace.planted_trace import Planted

MIB = 2**20


def recorded(tmp_path, *records, step=True):
    made = Planted()
    if step:
        made.step(1, 0, 1000)
        made.mark("forward", 100, 400)
    for record in records:
        made.memory(*record)
    return read(made.write(tmp_path / "trace.json"))


def test_the_curve_and_its_peak(tmp_path):
    records = [(300, -MIB, 2 * MIB), (100, MIB, MIB), (200, 2 * MIB, 3 * MIB)]
    curve = memory_curve(recorded(tmp_path, *records))
    assert curve.device == "cpu"
    assert (curve.allocated / MIB).tolist() == [1, 3, 2]
    assert (curve.peak, curve.peak_at) == (3 * MIB, pytest.approx(200e-6))


@pytest.mark.parametrize(("at", "phase"), [(200, "forward"), (99, None), (400, None)])
def test_the_phase_at_the_peak(tmp_path, at, phase):
    trace = recorded(tmp_path, (at, MIB, 2 * MIB), (at + 1, -MIB, MIB))
    assert phase_at_peak(trace, memory_curve(trace)) == phase


def test_devices_are_apart_and_totals_that_are_missing_are_summed(tmp_path):
    records = [(1, MIB, 0), (2, MIB, 0), (3, -MIB, 0), (4, 5 * MIB, 9 * MIB, 1)]
    trace = recorded(tmp_path, *records)
    assert (memory_curve(trace).allocated / MIB).tolist() == [1, 2, 1]
    assert (memory_curve(trace, "cuda:1").allocated / MIB).tolist() == [9]
    with pytest.raises(UserError, match="no memory of cuda:0 is in it: name one of cpu, cuda:1"):
        memory_curve(trace, "cuda:0")


def test_a_trace_without_memory_gets_one_line(tmp_path):
    with pytest.raises(UserError, match="record it with profile_memory=True"):
        memory_curve(recorded(tmp_path))


@pytest.mark.parametrize("step", [True, False])
def test_the_picture_marks_the_peak_above_the_phases(tmp_path, step):
    trace = recorded(tmp_path, (100, MIB, MIB), (200, 2 * MIB, 3 * MIB), step=step)
    figure = picture(trace, memory_curve(trace), title="A message")
    axes, strip = figure.axes
    assert [text.get_text() for text in axes.texts] == ["peak 3.0 MiB"]
    assert axes.get_ylabel() == "tensors on cpu\n(MiB)"
    assert len(strip.collections) == (5 if step else 0)
    assert len(figure.legends) == step
