"""How fast and how exact a matrix product and a convolution are in each number format, here."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from hpml.measure.clock import with_threads

SIDE = 512  # of the matrices
IMAGES, CHANNELS, PIXELS = 32, 64, 32  # of the convolution, 3×3
SECONDS = 1.5  # for all formats of an operation together, after the first call of each
SAME = 0.7  # of the faster rate: from here on two kernels are about as good
SLOW = 0.05  # seconds; what takes longer is called once
# What a processor must have to multiply a format's numbers: names of torch.cpu.get_capabilities(),
# of x86 and of ARM, and those that people know.
INSTRUCTIONS = {
    "bfloat16": {"avx512_bf16": "AVX512-BF16", "amx_bf16": "AMX-BF16", "bf16": "BF16"},
    "float16": {"avx512_fp16": "AVX512-FP16", "amx_fp16": "AMX-FP16", "fp16_arith": "FP16"},
    "int8": {"avx512_vnni": "AVX512-VNNI", "avx_vnni": "AVX-VNNI", "amx_int8": "AMX-INT8"},
}
TF32_READ = 10  # bits of the mantissa


@dataclass(frozen=True)
class Precision:
    """`operation` in the format `name`: FLOP/s (None where no unit computes in it) and error.

    The error is relative: the norm of (result - exact) over that of exact, which is float64.
    """

    name: str
    operation: str
    rate: float | None
    error: float


def measure() -> list[Precision]:
    """A matrix product and a convolution in float32, TF32, bfloat16, float16 and int8.

    The same normally distributed numbers for all. TF32 is played: inputs are rounded as a GPU
    would, and multiplied in float32. For int8 each tensor has one scale, its largest value over
    127, and the sums are int32. One thread; formats take turns, and the quickest call counts.
    """
    with with_threads(1):
        return _measure()


def _measure() -> list[Precision]:
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        matrices = [torch.randn(SIDE, SIDE) for _ in range(2)]
        shape = IMAGES, CHANNELS, PIXELS, PIXELS
        images = torch.randn(shape).to(memory_format=torch.channels_last)
        filters = torch.randn(CHANNELS, CHANNELS, 3, 3).to(memory_format=torch.channels_last)
        pixels = IMAGES * PIXELS**2
        return [
            *_each("matrix product", matrices, torch.mm, _mm_int8, 2 * SIDE**3),
            *_each(
                "convolution", (images, filters), _convolve, _convolve_int8,
                2 * pixels * CHANNELS**2 * 9,
            ),
        ]  # fmt: skip


def _each(
    operation: str,
    inputs: Sequence[Tensor],
    function: Callable[[Tensor, Tensor], Tensor],
    in_int8: Callable[[Tensor, Tensor], tuple[Callable[[], Tensor], float]],
    flops: float,
) -> list[Precision]:
    rounded = [round_mantissa(tensor, TF32_READ) for tensor in inputs]
    calls: dict[str, Callable[[], Tensor]] = {
        "float32": partial(function, *inputs),
        "TF32": partial(function, *rounded),
    }
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        calls[name] = partial(function, *(tensor.to(dtype) for tensor in inputs))
    calls["int8"], scale = in_int8(*inputs)
    scales = {name: scale if name == "int8" else 1.0 for name in calls}
    exact = function(*(tensor.double() for tensor in inputs))
    rows = []
    for name, (result, seconds) in _by_turns(calls).items():
        error = (result.double() * scales[name] - exact).norm() / exact.norm()
        rate = None if name == "TF32" else flops / seconds
        rows.append(Precision(name, operation, rate, error.item()))
    return rows


def _by_turns(
    calls: Mapping[str, Callable[[], Tensor]],
) -> dict[str, tuple[Tensor, float]]:
    """The result of each call, and the seconds of its quickest."""
    found, first = {}, True
    began = time.perf_counter()
    while first or time.perf_counter() - began < SECONDS:
        for name, call in calls.items():
            if not first and found[name][1] > SLOW:
                continue
            started = time.perf_counter()
            result = call()
            seconds = time.perf_counter() - started
            found[name] = result, seconds if first else min(seconds, found[name][1])
        if first:
            first, began = False, time.perf_counter()
    return found


def round_mantissa(tensor: Tensor, bits: int) -> Tensor:
    """float32, rounded to the nearest number with `bits` bits of mantissa, ties to even."""
    dropped = 23 - bits
    whole = tensor.view(torch.int32)
    even = (whole >> dropped) & 1
    kept = (whole + (1 << (dropped - 1)) - 1 + even) & ~((1 << dropped) - 1)
    return kept.view(torch.float32)


def quantize(tensor: Tensor) -> tuple[Tensor, float]:
    """int8 whole numbers and the scale to multiply them by: the largest value becomes 127."""
    scale = tensor.abs().max().item() / 127
    return (tensor / scale).round().to(torch.int8), scale


def _convolve(images: Tensor, filters: Tensor) -> Tensor:
    return F.conv2d(images, filters, padding=1)


def _mm_int8(left: Tensor, right: Tensor) -> tuple[Callable[[], Tensor], float]:
    """The call, and the scale of what it returns."""
    (left, scale), (right, other) = quantize(left), quantize(right)
    out = torch.empty(len(left), right.shape[1], dtype=torch.int32)
    return lambda: torch._int_mm(left, right, out=out), scale * other


def _convolve_int8(images: Tensor, filters: Tensor) -> tuple[Callable[[], Tensor], float]:
    """oneDNN's, which PyTorch calls for quantized networks: unsigned images, 0 at 128."""
    (images, scale), (filters, other) = quantize(images), quantize(filters)
    unsigned = (images.short() + 128).to(torch.uint8)
    unsigned = unsigned.contiguous(memory_format=torch.channels_last)
    scales, zeros = torch.tensor([other]), torch.zeros(1, dtype=torch.int64)
    ones = [1, 1]
    packed = torch.ops.onednn.qconv_prepack(
        filters, scales, scale, 128, ones, ones, ones, 1, list(images.shape)
    )
    call = partial(
        torch.ops.onednn.qconv2d_pointwise,
        unsigned, scale, 128, packed, scales, zeros, None, ones, ones, ones, 1,
        1.0, 0, torch.float32, "none", [], "",
    )  # fmt: skip
    return call, 1.0  # it is scaled already


def instructions(name: str) -> list[str]:
    """Those of this processor that multiply numbers of the format: "AVX512-BF16", ..."""
    has = torch.cpu.get_capabilities()
    return [known for flag, known in INSTRUCTIONS[name].items() if has.get(flag)]


def speed(measured: Sequence[Precision]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: which formats are faster than float32, and why."""
    rates = {(one.name, one.operation): one.rate for one in measured}
    operations = list(dict.fromkeys(one.operation for one in measured))
    held, parts = True, []
    for name, needed in INSTRUCTIONS.items():
        gains = [rates[name, o] / rates["float32", o] for o in operations]
        there = instructions(name)
        held &= min(gains) > 1.2 if there else max(gains) < 1
        times = " and ".join(f"{gain:.2g}" for gain in gains) + " times as fast"
        if max(gains) < 1:
            times = " and ".join(f"{1 / gain:.0f}" for gain in gains) + " times slower"
        why = f"has {' and '.join(there)}" if there else f"has no {next(iter(needed.values()))}"
        parts.append(f"{name} is {times} (this processor {why})")
    seen = f"Against float32 ({' and '.join(operations)}), {'; '.join(parts)}"
    sentence = f"**Answer.** {seen}."
    if (
        not library_multiplies("float16")
        and rates["float16", operations[0]] < rates["float32", operations[0]]
    ):
        sentence += (
            " oneDNN has no float16 kernel for this processor, so PyTorch computes with a simple "
            "loop of its own: that takes the time, not the conversions."
        )
    best = max(operations, key=lambda o: rates["float32", o])
    first = rates["float32", operations[0]]
    if first < SAME * rates["float32", best]:
        whole = [rates["float32", o] / 1e9 for o in (operations[0], best)]
        fair = " and ".join(
            f"{max(rates[name, o] for o in operations) / rates['float32', best]:.2g} ({name})"
            for name in ("bfloat16", "int8")
        )
        sentence += (
            f" The float32 {operations[0]} is another library's, and reaches {whole[0]:.0f} "
            f"GFLOP/s where the {best} has {whole[1]:.0f}: a slow kernel to be compared with. "
            f"Best against best the gains are {fair}."
        )
    return bool(held), sentence, f"{seen}. That can be: the machine is busy, or another kind."


def library_multiplies(name: str) -> bool:
    """Whether oneDNN has kernels for "bfloat16" or "float16" on this processor, as PyTorch asks it
    before it chooses (aten/src/ATen/native/mkldnn/Utils.h)."""
    short = {"bfloat16": "bf16", "float16": "fp16"}[name]
    return bool(getattr(torch.ops.mkldnn, f"_is_mkldnn_{short}_supported")())


def error(measured: Sequence[Precision]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: the error follows the bits of the mantissa."""
    found = {(one.name, one.operation): one.error for one in measured}
    wide, tf32, half, brain, whole = (
        found[name, "matrix product"] for name in ("float32", "TF32", "float16", "bfloat16", "int8")
    )
    sentence = (
        f"The error follows the mantissa: {half:.2g} for float16, {tf32:.2g} for TF32, {brain:.2g} "
        f"for bfloat16, which has three bits less. int8 has the largest, {whole:.2g}: its 255 "
        "steps reach as far as the largest number."
    )
    held = wide < 1e-5 < half < brain < whole and 4 < brain / half < 16 and 0.5 < tf32 / half < 2
    return held, sentence, f"errors: {found}."
