import pytest

from hpml.modules.m03_profiling.lecture.straggler_picture import shapes_of_faults, slower_phases
from hpml.trace.profiler.straggler import straggler

from ....trace.played_ranks import play


def test_a_slow_processor_is_slow_in_what_it_computes():
    shape = slower_phases(straggler(play([[0.01] * 4] * 3, slower=[1, 3, 1])), 1)
    assert shape["loading"] == pytest.approx(1)
    assert shape["forward"] == pytest.approx(3, rel=1e-3)


def test_a_slow_loader_is_slow_in_loading_alone():
    shape = slower_phases(straggler(play([[0.01] * 4, [0.04] * 4])), 1)
    assert shape["loading"] == pytest.approx(4, rel=1e-3)
    assert shape["forward"] == pytest.approx(1, rel=1e-3)


def test_each_fault_has_a_bar_in_each_phase():
    figure = shapes_of_faults({"a": {"loading": 2.0}, "b": {"forward": 3.0, "loading": 1.0}})
    assert len(figure.axes[0].patches) == 6
