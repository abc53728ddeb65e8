"""A processor without kernels for bfloat16 is known by its seconds."""

from hpml.measure import bf16_kernels


def test_they_are_missing_where_a_convolution_takes_many_times_as_long(monkeypatch):
    monkeypatch.setattr(bf16_kernels, "times_as_long", lambda: 1.9)
    assert bf16_kernels.missing() == ""
    monkeypatch.setattr(bf16_kernels, "times_as_long", lambda: 11.6)
    assert "takes 12 times as long in bfloat16" in bf16_kernels.missing()


def test_both_precisions_are_timed():
    assert 0 < bf16_kernels.times_as_long() < float("inf")
