"""How fast this processor computes: matrix products, the operation deep learning is made of."""

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from hpml.machine.resources import has_bfloat16
from hpml.measure.clock import quickest, with_threads


def peak(
    dtype: torch.dtype,
    threads: int = 1,
    size: int | None = None,
    device: torch.device | str = "cpu",
    seconds: float = 0.15,
) -> float:
    """FLOP/s, of int8 operations/s, that a product of two square matrices reaches at best.

    A multiplication and an addition are two. `size`: rows of a matrix, 1024 on a CPU, 8192 on a
    GPU. The quickest product in so many `seconds` counts. int8 adds up in int32.

    Raises RuntimeError where PyTorch has no such product.
    """
    size = size or (8192 if torch.device(device).type == "cuda" else 1024)
    left, right, out = _matrices(dtype, size, device)
    product = torch._int_mm if dtype == torch.int8 else torch.mm  # mm has no int8 on a CPU
    with with_threads(threads):
        return 2 * size**3 / quickest(lambda: product(left, right, out=out), seconds, device)


def convolution_peak(dtype: torch.dtype, threads: int = 1, seconds: float = 0.15) -> float:
    """FLOP/s of a 3×3 convolution with 256 channels on the CPU, the quickest in so many `seconds`.

    Another library than that of a matrix product (oneDNN, not MKL), and faster on some processors.
    """
    with with_threads(threads), torch.no_grad():
        images, filters = torch.rand(8, 256, 16, 16), torch.rand(256, 256, 3, 3)
        images, filters = (
            tensor.to(dtype=dtype, memory_format=torch.channels_last)
            for tensor in (images, filters)
        )
        flops = 2 * images.numel() * 256 * 3 * 3
        return flops / quickest(lambda: conv2d(images, filters, padding=1), seconds)


def fast_types(device: torch.device | str = "cpu") -> dict[str, torch.dtype]:
    """The number types that the hardware multiplies by itself, by name; float32 first.

    Others are converted before and after, which is slower than float32.
    """
    types = {"float32": torch.float32}
    if torch.device(device).type == "cuda":
        bf16, int8 = torch.cuda.is_bf16_supported(including_emulation=False), True
    else:
        flags = torch.cpu.get_capabilities()
        bf16 = has_bfloat16()
        int8 = any(flags.get(flag) for flag in ("avx512_vnni", "avx_vnni", "amx_int8"))
    return (
        types
        | ({"bfloat16": torch.bfloat16} if bf16 else {})
        | ({"int8": torch.int8} if int8 else {})
    )


def _matrices(
    dtype: torch.dtype, size: int, device: torch.device | str
) -> tuple[Tensor, Tensor, Tensor]:
    """Two [size, size] to multiply, and one for the product."""
    if dtype == torch.int8:
        left, right = (
            torch.randint(-9, 9, (size, size), dtype=dtype, device=device) for _ in range(2)
        )
        if torch.device(device).type == "cuda":
            right = right.t()  # the tensor cores' kernels of int8 take it by columns
        return left, right, torch.empty(size, size, dtype=torch.int32, device=device)
    left, right = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))
    return left, right, torch.empty(size, size, dtype=dtype, device=device)
