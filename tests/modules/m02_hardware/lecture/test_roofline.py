"""The roofline model (Williams et al. 2009), and its picture."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hpml.machine.topology import Cache
from hpml.modules.m02_hardware.lecture import machine_roofline
from hpml.modules.m02_hardware.lecture.machine_roofline import (
    Pages,
    above,
    adam_work,
    binding_table,
    layer_work,
    machine_roofs,
    pages,
    roofs_and_works,
    sides,
    table,
    whole,
    works,
)
from hpml.modules.m02_hardware.lecture.roofline import (
    COMPUTE,
    MEMORY,
    Roof,
    Work,
    picture,
    sweep_picture,
)

ROOF = Roof("float32, 1 core", peak=100e9, bandwidth=50e9)
POSITIVE = st.floats(1e-3, 1e15)


def test_the_ridge_is_where_memory_keeps_up_with_the_arithmetic():
    assert ROOF.ridge == 2.0
    assert ROOF.attainable(1.0) == 50e9
    assert ROOF.binding(1.0) == MEMORY
    assert ROOF.attainable(4.0) == 100e9
    assert ROOF.binding(4.0) == COMPUTE


@given(POSITIVE, POSITIVE, POSITIVE)
def test_nothing_is_faster_than_either_limit(peak, bandwidth, intensity):
    roof = Roof("", peak, bandwidth)
    assert roof.attainable(intensity) <= peak
    assert roof.attainable(intensity) <= bandwidth * intensity
    tight = peak if roof.binding(intensity) == COMPUTE else bandwidth * intensity
    assert roof.attainable(intensity) == pytest.approx(tight)


def test_a_share_of_the_roof():
    work = Work("", flops=1e9, nbytes=1e9, seconds=0.04)  # 25 GFLOP/s at 1 FLOP/byte
    assert work.share(ROOF) == pytest.approx(0.5)


def test_a_layer_is_one_point_forward_and_backward_together():
    work = layer_work("a linear layer", nn.Linear(8, 4), torch.randn(16, 8), rounds=1)
    assert work.name == "a linear layer"
    assert work.flops == 3 * 2 * 16 * 8 * 4  # forward, and the gradients of weights and input
    assert work.seconds > 0


def test_adam_moves_seven_numbers_for_each_parameter():
    work = adam_work(100)
    assert (work.intensity, work.nbytes) == (pytest.approx(14 / 28), 2800)


SLOW, FAST = Work("ReLU", 1e9, 8e9, 0.5), Work("linear", 8e9, 1e9, 0.1)  # 2 and 80 GFLOP/s


def test_work_is_told_apart_by_the_limit_that_binds_it():
    found = sides([SLOW, FAST], ROOF)
    assert found == (True, [SLOW], [FAST], SLOW, FAST, [FAST], [SLOW])
    assert not sides([SLOW, replace(FAST, seconds=8.0)], ROOF).held
    assert sides([FAST], ROOF)[:4] == (False, [], [FAST], None)


def test_the_table_says_what_the_roof_allows():
    _, relu, linear = binding_table([SLOW, FAST], ROOF).splitlines()
    assert "memory bandwidth       6 GFLOP/s     2.0 GFLOP/s" in relu
    assert "compute              100 GFLOP/s    80.0 GFLOP/s" in linear


def test_roofs_of_this_machine_for_every_number_of_cores_and_type(monkeypatch):
    types = {"float32": torch.float32, "int8": torch.int8}
    monkeypatch.setattr(machine_roofline, "fast_types", lambda: types)
    monkeypatch.setattr(
        machine_roofline, "peak", lambda dtype, n, seconds: n * 4e9 / dtype.itemsize
    )
    monkeypatch.setattr(
        machine_roofline, "convolution_peak", lambda dtype, n, _: {torch.float32: n * 3e9}[dtype]
    )
    monkeypatch.setattr(
        machine_roofline, "bandwidth", lambda kernel, threads, seconds: threads * len(kernel) * 1e9
    )
    roofs = machine_roofs([1, 2], gpu=False)
    assert [roof.name for roof in roofs] == [
        "float32, 1 core", "int8, 1 core", "float32, 2 cores", "int8, 2 cores",
    ]  # fmt: skip
    assert [roof.peak for roof in roofs] == [3e9, 4e9, 6e9, 8e9]  # int8 has no convolution
    assert roofs[-1].bandwidth == 2e9 * len("in place")  # which was the best
    assert "0.5 FLOP/B" in table(roofs)


def test_a_roof_is_the_better_of_before_and_after_the_layers(monkeypatch):
    before, after = Roof("float32, 1 core", 4e9, 2e9), Roof("float32, 1 core", 3e9, 5e9)
    slow = [Work("Adam's step", flops=1.0, nbytes=1.0, seconds=1.0)]
    measured = iter([[before], slow, [after]])
    monkeypatch.setattr(machine_roofline, "machine_roofs", lambda *_: next(measured))
    monkeypatch.setattr(machine_roofline, "works", lambda *_: next(measured))
    assert roofs_and_works({}, 100)[:2] == ([Roof("float32, 1 core", 4e9, 5e9)], slow)


def test_memory_is_measured_again_after_each_layer_and_the_spread_is_kept(monkeypatch):
    one, two = Roof("float32, 1 core", 4e9, 2e9), Roof("float32, 2 cores", 8e9, 4e9)
    monkeypatch.setattr(machine_roofline, "_numbers_of_cores", lambda: [1, 2])
    monkeypatch.setattr(machine_roofline, "machine_roofs", lambda *_: [one, two])
    rates = iter([6e9, 5e9, 5e9])
    monkeypatch.setattr(machine_roofline, "bandwidth", lambda *_, threads, **__: next(rates))
    monkeypatch.setattr(machine_roofline, "FASTEST", ("update",))
    adams = Work("Adam's step", flops=14.0, nbytes=7e9, seconds=1.0)
    monkeypatch.setattr(machine_roofline, "adam_work", lambda parameters: adams)
    layers = {name: (nn.Linear(2, 2), torch.randn(1, 2)) for name in "abc"}
    roofs, measured, spread = roofs_and_works(layers, 100)
    assert [work.name for work in measured] == ["a", "b", "c", "Adam's step"]
    assert [roof.bandwidth for roof in roofs] == [2e9, 7e9]  # of all cores
    assert spread == pytest.approx(0.4)  # 7 over the median of 4, 4, 5, 5, 6, 7


def test_a_point_above_its_roof_by_more_than_the_spread_is_found():
    work = Work("", flops=1e9, nbytes=1e9, seconds=1 / 55)  # 55 of 50 GFLOP/s
    assert above([work], ROOF, 0.05) == [work]
    assert above([work], ROOF, 0.15) == []
    assert above([replace(work, seconds=1 / 51.5)], ROOF, 0.01) == []  # no clock repeats so well


def test_modules_in_a_module_are_counted_one_by_one():
    pair = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    given = torch.randn(16, 8)
    linear, relu = (layer_work("", one, given, rounds=1) for one in pair)
    both = layer_work("", pair, given, rounds=1)
    assert (both.flops, both.nbytes) == (linear.flops + relu.flops, linear.nbytes + relu.nbytes)


def test_the_whole_processor_is_that_of_most_cores_and_no_gpu():
    names = ("float32, 1 core", "float32, 8 cores", "int8, 8 cores", "float32, NVIDIA H200")
    assert whole([replace(ROOF, name=name) for name in names]).name == "float32, 8 cores"


def test_which_come_near_the_limit_and_which_do_not_is_computed():
    near = Work("ReLU", 1e9, 1e9, 0.025)  # 40 of 50 GFLOP/s
    far = Work("linear", 1e9, 1e9, 0.2)
    fast = Work("convolution", 8e9, 1e9, 0.1)
    assert sides([near, far, fast], ROOF)[1:] == (
        *([near, far], [fast], near, fast),
        *([near, fast], [far]),
    )


def test_fresh_pages_are_the_difference_or_they_are_not():
    slow, quick = Work("ReLU", 1e9, 1e9, 0.06), Work("ReLU", 1e9, 1e9, 0.01)
    assert Pages(slow, 90_000, quick, 10_000).held
    assert not Pages(quick, 90_000, quick, 10_000).held
    assert not Pages(slow, 10_000, quick, 10_000).held


def test_a_layer_is_measured_in_fresh_and_in_kept_memory():
    found = pages("ReLU", nn.ReLU(), torch.randn(9 << 20))  # 36 MiB: a mapping of its own
    # How many new pages each got is the kernel's affair, and in the lecture's sentence.
    assert found.fresh.name == found.kept.name == "ReLU"
    assert found.fresh.flops == found.kept.flops


def test_works_are_the_layers_and_adam():
    found = works({"linear": (nn.Linear(8, 4), torch.randn(16, 8))}, adam=100)
    assert [work.name for work in found] == ["linear", "Adam's step"]


def test_the_picture_draws_every_roof_and_letters_the_points():
    axes = picture([ROOF], [Work("a", 1e9, 1e9, 0.04), Work("b", 4e9, 1e9, 0.1)]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["A", "B"]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    line = axes.lines[0]
    assert max(line.get_ydata()) == pytest.approx(100)  # GFLOP/s
    assert all(line.get_label() and "FLOP" in axes.get_xlabel() for line in axes.lines)


def test_the_sweep_marks_the_caches_that_end_in_it():
    caches = [Cache(1, "Data", 48 << 10, (0,)), Cache(2, "Unified", 1 << 20, (0,))]
    axes = sweep_picture({"copy": {256 << 10: 9e9, 4 << 20: 5e9}}, caches).axes[0]
    assert [text.get_text().strip() for text in axes.texts] == ["L2"]
    assert list(axes.lines[0].get_ydata()) == [9, 5]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["256 KiB", "1 MiB", "4 MiB"]
