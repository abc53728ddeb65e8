"""The rate of a matrix product, on a clock that the test sets."""

import itertools
import time

import pytest
import torch

from hpml.measure.compute import matmul_rate


def test_two_flops_for_each_of_n_cubed_multiply_adds_in_the_median_time(monkeypatch):
    # Seconds of each product: two to warm up, then 1, 2 and 30.
    ends = itertools.accumulate(itertools.chain(*((0, took) for took in (99, 99, 1, 30, 2))))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ends))
    assert matmul_rate(torch.float32, 1, size=8, rounds=3) == pytest.approx(2 * 8**3 / 2)


def test_the_callers_threads_stay_as_they_are():
    before = torch.get_num_threads()
    assert matmul_rate(torch.bfloat16, before + 1, size=8, rounds=1) > 0
    assert torch.get_num_threads() == before
