"""The rates of a matrix product and of a convolution."""

import pytest
import torch

from hpml.measure import compute


def test_the_callers_threads_stay_as_they_are():
    before = torch.get_num_threads()
    assert compute.peak(torch.bfloat16, before + 1, size=8, seconds=0.001) > 0
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_peak_is_two_operations_for_each_of_n_cubed(monkeypatch, dtype):
    monkeypatch.setattr(compute, "quickest", lambda work, *_: work() is None or 0.5)
    assert compute.peak(dtype, size=32) == pytest.approx(2 * 32**3 / 0.5)


def test_float32_comes_first_and_every_fast_type_has_a_product():
    types = compute.fast_types()
    assert next(iter(types)) == "float32"
    assert all(compute.peak(dtype, size=32, seconds=0.001) > 0 for dtype in types.values())


def test_a_convolution_is_two_operations_for_each_tap_and_channel(monkeypatch):
    monkeypatch.setattr(compute, "quickest", lambda work, *_: work() is None or 0.5)
    expected = 2 * (8 * 256 * 16 * 16) * (256 * 9) / 0.5
    assert compute.convolution_peak(torch.float32) == pytest.approx(expected)
