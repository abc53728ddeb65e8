"""Errors of number formats, and what is concluded from rates."""

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


@pytest.mark.parametrize("library", [True, False])
def test_a_simple_loop_of_float16_gets_a_part_of_the_rows(monkeypatch, library):
    rows = []

    def product(left, right):
        rows.append((left.dtype, len(left)))
        return left @ right

    monkeypatch.setattr(precision, "library_multiplies", lambda name: library)
    in_a_second = lambda calls: {name: (call(), 1.0) for name, call in calls.items()}  # noqa: E731
    monkeypatch.setattr(precision, "_by_turns", in_a_second)
    matrices = [torch.randn(64, 64) for _ in range(2)]
    found = precision._each("product", matrices, product, precision._mm_int8, 2 * 64**3)
    assert (torch.float16, 64 if library else 64 // precision.LESS) in rows
    assert (torch.bfloat16, 64) in rows
    half = next(one for one in found if one.name == "float16")
    assert half.error < 1e-3
    assert half.rate == 2 * 64 * 64 * (64 if library else 64 // precision.LESS)


def errors(measured, operation="matrix product"):
    return {one.name: one.error for one in measured if one.operation == operation}


def test_errors_follow_the_mantissa(measured):
    assert precision.follow_the_mantissa(errors(measured))
    for operation in ("matrix product", "convolution"):
        assert 0.005 < errors(measured, operation)["int8"] < 0.05


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


def held(gains):
    return all(gain.held for gain in gains.values())


def test_what_has_an_instruction_is_faster_and_what_has_none_slower(has):
    measured = rates(bfloat16=4, float16=0.01, int8=8)
    found = precision.gains(measured)
    assert held(found)
    assert found["bfloat16"] == (True, True, [4], ["AVX512-BF16"], "AVX512-BF16")
    assert found["float16"] == (True, False, [0.01], [], "AVX512-FP16")
    assert precision.slow_kernel(measured) is None
    assert [gain.pace for gain in found.values()] == [
        "4 times as fast",
        "100 times slower",
        "8 times as fast",
    ]


def test_without_an_instruction_it_may_be_about_as_fast(has, monkeypatch):
    monkeypatch.setattr(precision, "instructions", lambda name: [])
    found = precision.gains(rates(bfloat16=0.04, float16=0.01, int8=1.02))
    assert held(found)
    assert found["int8"].pace == "about as fast"
    assert precision.title(found).startswith("Without an instruction")
    assert not held(precision.gains(rates(bfloat16=0.04, float16=0.01, int8=1.3)))


def test_float16_may_have_an_instruction_and_gain_nothing(has, monkeypatch):
    monkeypatch.setattr(precision, "instructions", lambda name: ["AVX512-FP16"])
    found = precision.gains(rates(bfloat16=4, float16=0.9, int8=8))
    assert (found["float16"].held, found["float16"].faster) == (True, False)
    assert not held(precision.gains(rates(bfloat16=0.9, float16=0.9, int8=8)))


@pytest.mark.parametrize("library", [True, False])
def test_why_float16_is_slow_is_asked_of_the_library(has, monkeypatch, library):
    monkeypatch.setattr(precision, "library_multiplies", lambda name: library)
    expected = [] if library else ["float16"]
    assert precision.own_loops(rates(bfloat16=4, float16=0.01, int8=1)) == expected
    assert precision.own_loops(rates(bfloat16=4, float16=1.5, int8=1)) == []


def test_the_library_is_asked_for_both_formats_of_16_bits():
    assert {type(precision.library_multiplies(name)) for name in ("bfloat16", "float16")} == {bool}


def test_a_slow_float32_kernel_is_named_and_the_gain_is_best_against_best(has):
    times = {"float32": 2.5, "bfloat16": 5, "float16": 0.1, "int8": 10}
    other = [Precision(name, "convolution", 1e9 * gain, 0.01) for name, gain in times.items()]
    assert precision.slow_kernel(rates(bfloat16=4, float16=0.01, int8=8) + other) == (
        *("matrix product", 1e9, "convolution", 2.5e9),
        {"bfloat16": 2, "int8": 4},
    )


@pytest.mark.parametrize("change", [{"bfloat16": 1.0}, {"float16": 2.0}, {"int8": 0.5}])
def test_other_rates_do_not_hold(has, change):
    assert not held(precision.gains(rates(**{"bfloat16": 4, "float16": 0.01, "int8": 8} | change)))


def test_errors_out_of_order_do_not_hold(measured):
    found = errors(measured)
    assert not precision.follow_the_mantissa(found | {"bfloat16": found["bfloat16"] / 100})


def test_the_picture_says_where_there_is_no_unit(measured):
    left, right = speed_and_error(measured, title="t").axes
    assert [t.get_text() for t in left.texts].count("not in this processor") == 2
    assert len(right.patches) == len(measured)
