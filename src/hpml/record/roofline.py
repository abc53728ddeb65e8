"""What bounds the device: products and convolutions by number type, memory, launches, fusion."""

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hpml.measure.bandwidth import KERNELS, bandwidth
from hpml.measure.clock import quickest
from hpml.measure.compute import peak
from hpml.record.kept import Place

SIDES = {"cuda": (256, 512, 1024, 2048, 4096, 8192), "cpu": (128, 256, 512, 1024)}
BYTES = {"cuda": None, "cpu": 96 * 2**20}  # all arrays of a kernel; None: STREAM's rule
HEADS = {"cuda": (16, 16, 2048, 64), "cpu": (2, 4, 256, 64)}  # batch, heads, length, width
NUMBERS = {"cuda": 2**26, "cpu": 2**21}
LAUNCHES = 1000
SECONDS = 0.2  # for each figure


def measure(place: Place) -> dict[str, Any]:
    """FLOP/s of products by type and side, and of convolutions; byte/s of memory; seconds of a
    launch; seconds of attention and of GELU, as one kernel and as several.
    """
    device = place.device
    found: dict[str, Any] = {"products": {}, "convolutions": {}, "bytes_per_second": {}}
    for name, dtype in _types(device).items():
        try:
            rates = {side: _product(dtype, side, device) for side in SIDES[device]}
        except (RuntimeError, NotImplementedError) as error:
            found["products"][name] = {"failed": str(error).splitlines()[0][:200]}
            continue
        found["products"][name] = rates
        print(f"    {name}: {max(rates.values()) / 1e12:.2f} TFLOP/s", flush=True)
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        found["convolutions"][name] = _convolution(dtype, device)
    for kernel in KERNELS:
        rate = bandwidth(kernel, BYTES[device], device=device, seconds=SECONDS)
        found["bytes_per_second"][kernel] = rate
    print(f"    triad: {found['bytes_per_second']['triad'] / 1e9:.0f} GB/s", flush=True)
    found["launch_seconds"] = _launch(device)
    found["attention"] = _attention(device)
    found["gelu"] = _gelu(device)
    return found


def _types(device: str) -> dict[str, Any]:
    """Number types by name; "tf32" is float32 with products in 19 bits."""
    types: dict[str, Any] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    if device == "cuda":
        types |= {"tf32": "tf32", "float16": torch.float16, "int8": torch.int8}
        if torch.cuda.get_device_capability() >= (8, 9):
            types["float8"] = torch.float8_e4m3fn
    return types


def _product(dtype: Any, side: int, device: str) -> float:
    """FLOP/s of a product of two [side, side]."""
    if dtype == "tf32":
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return peak(torch.float32, 1, side, device, SECONDS)
        finally:
            torch.set_float32_matmul_precision(before)
    if dtype == torch.float8_e4m3fn:
        left = torch.rand(side, side, device=device).to(dtype)
        right = torch.rand(side, side, device=device).to(dtype).t()  # it wants columns
        one = torch.ones((), device=device)
        return (
            2
            * side**3
            / quickest(
                lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16),
                SECONDS,
                device,
            )
        )
    return peak(dtype, 1, side, device, SECONDS)


def _convolution(dtype: torch.dtype, device: str) -> float:
    """FLOP/s of a 3×3 convolution of 256 channels, channels last."""
    batch = 256 if device == "cuda" else 8
    images = torch.rand(batch, 256, 16, 16, device=device, dtype=dtype)
    filters = torch.rand(256, 256, 3, 3, device=device, dtype=dtype)
    images, filters = (t.to(memory_format=torch.channels_last) for t in (images, filters))
    with torch.no_grad():
        taken = quickest(lambda: F.conv2d(images, filters, padding=1), SECONDS, device)
    return 2 * images.numel() * 256 * 9 / taken


def _launch(device: str) -> dict[str, float]:
    """Seconds for each of many additions to one number: until they are asked for, and done."""
    one = torch.zeros(1, device=device)
    wait: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else lambda: None
    found: dict[str, list[float]] = {"asked": [], "done": []}
    for _ in range(7):
        wait()
        began = time.perf_counter()
        for _ in range(LAUNCHES):
            one.add_(1)
        found["asked"].append((time.perf_counter() - began) / LAUNCHES)
        wait()
        found["done"].append((time.perf_counter() - began) / LAUNCHES)
    found = {name: [min(seconds)] for name, seconds in found.items()}
    best = {name: seconds[0] for name, seconds in found.items()}
    if device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(LAUNCHES):
                one.add_(1)
        best["graph"] = quickest(graph.replay, SECONDS, device) / LAUNCHES
    return best


def _attention(device: str) -> dict[str, float]:
    """Seconds of forward: softmax(Q Kᵀ / √d) V in four steps, and as one kernel; bfloat16."""
    shape = HEADS[device]
    query, key, value = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))

    def steps() -> Tensor:
        scores = query @ key.transpose(2, 3) / math.sqrt(shape[3])
        return scores.softmax(3) @ value

    with torch.no_grad():
        far = (steps() - F.scaled_dot_product_attention(query, key, value)).abs().max()
        return {
            "steps": quickest(steps, SECONDS, device),
            "fused": quickest(
                lambda: F.scaled_dot_product_attention(query, key, value), SECONDS, device
            ),
            "difference": float(far),
        }


def _gelu(device: str) -> dict[str, float]:
    """Seconds of GELU (tanh) as eight operations, and as one kernel; and the bytes that must move.

    float32.
    """
    x = torch.randn(NUMBERS[device], device=device)

    def steps() -> Tensor:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + torch.tanh(inner))

    with torch.no_grad():
        return {
            "steps": quickest(steps, SECONDS, device),
            "fused": quickest(lambda: F.gelu(x, approximate="tanh"), SECONDS, device),
            "bytes": 2.0 * x.nbytes,
        }
