"""Errors of number formats, and what is concluded from rates."""

import dataclasses

import pytest
import torch

from hpml.modules.m02_hardware.lecture import precision
from hpml.modules.m02_hardware.lecture.number_formats_picture import speed_and_error
from hpml.modules.m02_hardware.lecture.precision import INSTRUCTIONS, Precision


@pytest.fixture
def measured(monkeypatch):
    for name, value in (("SIDE", 64), ("IMAGES", 2), ("CHANNELS", 16), ("PIXELS", 8)):
        monkeypatch.setattr(precision, name, value)
    monkeypatch.setattr(precision, "SECONDS", 0.01)
    return precision.measure()


def test_every_format_is_measured_but_tf32_has_no_rate(measured):
    assert [one.name for one in measured[:5]] == ["float32", "TF32", *INSTRUCTIONS]
    assert [one.name for one in measured if one.rate is None] == ["TF32", "TF32"]
    assert all(one.rate > 0 for one in measured if one.name != "TF32")


def test_errors_follow_the_mantissa_in_both_operations(measured):
    held, sentence, _ = precision.error(measured)
    assert held, sentence
    whole = {one.operation: one.error for one in measured if one.name == "int8"}
    assert all(0.005 < error < 0.05 for error in whole.values())


def test_the_callers_threads_and_random_numbers_stay(monkeypatch):
    monkeypatch.setattr(precision, "_measure", lambda: torch.get_num_threads())
    before = torch.get_num_threads()
    assert precision.measure() == 1
    assert torch.get_num_threads() == before


def test_rounding_a_mantissa_is_pytorchs_for_bfloat16():
    numbers = torch.randn(10_000) * 1e3
    assert torch.equal(precision.round_mantissa(numbers, 7), numbers.bfloat16().float())
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8])
    assert precision.round_mantissa(ties, 7).tolist() == ties.bfloat16().tolist()


def test_ten_bits_keep_what_float16_keeps_where_both_have_the_exponent():
    numbers = torch.randn(10_000).clamp(0.1, 100)
    assert torch.equal(precision.round_mantissa(numbers, 10), numbers.half().float())


def test_int8_overflows_in_a_product_and_has_no_gradient():
    """As the lecture says."""
    large = torch.full((4, 4), 100, dtype=torch.int8)
    assert (large @ large)[0, 0] == (4 * 100 * 100 + 128) % 256 - 128
    assert torch._int_mm(torch.ones(32, 32, dtype=torch.int8) * 100, large.repeat(8, 8)).max() > 127
    with pytest.raises(RuntimeError, match="floating point"):
        large.requires_grad_()


def rates(**times):
    rows = [Precision("float32", "matrix product", 1e9, 1e-7)]
    return rows + [
        Precision(name, "matrix product", 1e9 * gain, 0.01) for name, gain in times.items()
    ]


@pytest.fixture
def has(monkeypatch):
    flags = {"avx512_bf16": True, "avx512_vnni": True, "avx512_fp16": False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)


def test_what_has_an_instruction_is_faster_and_what_has_none_slower(has):
    held, sentence, _ = precision.speed(rates(bfloat16=4, float16=0.01, int8=8))
    assert held
    assert "bfloat16 is 4 times as fast (this processor has AVX512-BF16)" in sentence
    assert "float16 is 100 times slower (this processor has no AVX512-FP16)" in sentence
    assert "slow kernel" not in sentence


@pytest.mark.parametrize("library", [True, False])
def test_why_float16_is_slow_is_asked_of_the_library(has, monkeypatch, library):
    monkeypatch.setattr(precision, "library_multiplies", lambda name: library)
    _, sentence, _ = precision.speed(rates(bfloat16=4, float16=0.01, int8=8))
    assert ("a simple loop of its own" in sentence) != library


def test_the_library_is_asked_for_both_formats_of_16_bits():
    assert {type(precision.library_multiplies(name)) for name in ("bfloat16", "float16")} == {bool}


def test_a_slow_float32_kernel_is_named_and_the_gain_is_best_against_best(has):
    times = {"float32": 2.5, "bfloat16": 5, "float16": 0.1, "int8": 10}
    other = [Precision(name, "convolution", 1e9 * gain, 0.01) for name, gain in times.items()]
    _, sentence, _ = precision.speed(rates(bfloat16=4, float16=0.01, int8=8) + other)
    assert "float32 matrix product is another library's, and reaches 1 GFLOP/s" in sentence
    assert sentence.endswith("Best against best the gains are 2 (bfloat16) and 4 (int8).")


@pytest.mark.parametrize("change", [{"bfloat16": 1.0}, {"float16": 2.0}, {"int8": 0.5}])
def test_other_rates_do_not_hold(has, change):
    assert not precision.speed(rates(**{"bfloat16": 4, "float16": 0.01, "int8": 8} | change))[0]


def test_errors_out_of_order_do_not_hold(measured):
    wrong = [
        dataclasses.replace(one, error=one.error / 100) if one.name == "bfloat16" else one
        for one in measured
    ]
    assert not precision.error(wrong)[0]


def test_the_picture_says_where_there_is_no_unit(measured):
    left, right = speed_and_error(measured, title="t").axes
    assert [t.get_text() for t in left.texts].count("not in this processor") == 2
    assert len(right.patches) == len(measured)
