"""How fast and how exact a matrix product and a convolution are in each number format, here."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from hpml.measure.bf16_kernels import library_multiplies
from hpml.measure.clock import with_threads

SIDE = 512  # of the matrices
IMAGES, CHANNELS, PIXELS = 32, 64, 32  # of the convolution, 3×3
SECONDS = 1.5  # for all formats of an operation together, after the first call of each
SAME = 0.7  # of the faster rate: from here on two kernels are about as good
CLEAR = 1.2  # times as fast: not to be mistaken
SLOW = 0.05  # seconds; what takes longer is called once
LESS = 16  # times less work for float16 where it is computed in a simple loop, of 20 seconds else
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
    first, second = inputs
    part = {} if library_multiplies("float16") else {"float16": -(-len(first) // LESS)}
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        some = first[: part.get(name, len(first))]  # rows, or images
        calls[name] = partial(function, some.to(dtype), second.to(dtype))
    calls["int8"], scale = in_int8(*inputs)
    scales = {name: scale if name == "int8" else 1.0 for name in calls}
    whole = function(*(tensor.double() for tensor in inputs))
    rows = []
    for name, (result, seconds) in _by_turns(calls).items():
        exact = whole[: len(result)]
        error = (result.double() * scales[name] - exact).norm() / exact.norm()
        rate = None if name == "TF32" else flops * len(result) / len(whole) / seconds
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


class Gain(NamedTuple):
    """How many times as fast as float32 a format is, by operation; this processor's instructions
    for it, and the first that there could be. `held`: it is faster with one, and without
    one not clearly faster.

    float16 need not be faster: few processors have instructions for it (since 2023), and a library
    may have no kernel that gains by them.
    """

    held: bool
    faster: bool  # in each operation
    times: list[float]
    instructions: list[str]
    wanted: str

    @property
    def pace(self) -> str:
        """In words: "5.7 times as fast and about as fast"."""
        return " and ".join(map(_pace, self.times))


def gains(measured: Sequence[Precision]) -> dict[str, Gain]:
    """Of each format that needs an instruction of its own."""
    rates, found = _rates(measured), {}
    for name, needed in INSTRUCTIONS.items():
        times = [each[name] / each["float32"] for each in rates.values()]
        there = instructions(name)
        faster = min(times) > CLEAR
        held = (faster or name == "float16") if there else max(times) < CLEAR
        found[name] = Gain(held, faster, times, there, next(iter(needed.values())))
    return found


def _pace(times: float) -> str:
    if 1 / CLEAR <= times <= CLEAR:
        return "about as fast"
    factor = max(times, 1 / times)
    words = f"{factor:.0f}" if factor >= 10 else f"{factor:.2g}"
    return f"{words} times {'as fast' if times > 1 else 'slower'}"


class SlowKernel(NamedTuple):
    """FLOP/s of float32 in the first operation and in the best one; and of other formats, in their
    best operation, how many times as fast as that they are."""

    operation: str
    rate: float
    best: str
    best_rate: float
    gains: dict[str, float]


def slow_kernel(measured: Sequence[Precision]) -> SlowKernel | None:
    """None where the first operation's float32 kernel is about as good as the best."""
    rates = _rates(measured)
    first, best = next(iter(rates)), max(rates, key=lambda each: rates[each]["float32"])
    rate, most = rates[first]["float32"], rates[best]["float32"]
    if rate >= SAME * most:
        return None
    gains = {
        name: max(each[name] for each in rates.values()) / most for name in ("bfloat16", "int8")
    }
    return SlowKernel(first, rate, best, most, gains)


def own_loops(measured: Sequence[Precision]) -> list[str]:
    """The formats of 16 bits whose products of matrices are a loop of PyTorch's own, and slow."""
    product = next(iter(_rates(measured).values()))
    return [
        name
        for name in ("bfloat16", "float16")
        if not library_multiplies(name) and product[name] < product["float32"]
    ]


def title(gains: Mapping[str, Gain]) -> str:
    """What the speeds of the formats show, for a picture."""
    if any(gain.instructions and gain.faster for gain in gains.values()):
        return "Fewer bits are faster where the processor has an instruction for them"
    return "Without an instruction for them, fewer bits are no faster"


def _rates(measured: Sequence[Precision]) -> dict[str, dict[str, float]]:
    """FLOP/s by operation and format."""
    rates: dict[str, dict[str, float]] = {one.operation: {} for one in measured}
    for one in measured:
        rates[one.operation][one.name] = one.rate
    return rates


def follow_the_mantissa(errors: Mapping[str, float]) -> bool:
    """Whether the errors of an operation, by format, go by the bits of the mantissa."""
    wide, tf32, half, brain, whole = (
        errors[name] for name in ("float32", "TF32", "float16", "bfloat16", "int8")
    )
    return wide < 1e-5 < half < brain < whole and 4 < brain / half < 16 and 0.5 < tf32 / half < 2
