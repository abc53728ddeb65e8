"""A processor without kernels for bfloat16 is known by what oneDNN says, not by a clock."""

import torch

from hpml.measure import bf16_kernels


def test_they_are_missing_where_the_library_has_none(monkeypatch):
    monkeypatch.setattr(bf16_kernels, "library_multiplies", lambda name: True)
    monkeypatch.setattr(bf16_kernels, "times_as_long", lambda: 11.6)
    assert bf16_kernels.missing() == ""
    monkeypatch.setattr(bf16_kernels, "library_multiplies", lambda name: False)
    assert "takes 12 times as long in bfloat16" in bf16_kernels.missing()


def test_without_onednn_there_are_none(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert bf16_kernels.missing()


def test_both_precisions_are_timed():
    assert 0 < bf16_kernels.times_as_long() < float("inf")
