"""Whether a processor's library has kernels for bfloat16, and what a convolution takes without."""

import time
from itertools import product

import torch
from torch.nn.functional import conv2d


def missing() -> str:
    """Why a training in bfloat16 would take many minutes here; empty where it does not.

    oneDNN has kernels for bfloat16 where a processor has AVX-512 or AMX. Elsewhere PyTorch uses
    loops of its own.
    """
    if library_multiplies("bfloat16"):
        return ""
    return (
        f"on this processor a convolution takes {times_as_long():.0f} times as long in bfloat16 as "
        "in float32, since oneDNN has no kernel for it (on x86 that takes AVX-512 or AMX)"
    )


def library_multiplies(name: str) -> bool:
    """Whether oneDNN has kernels for "bfloat16" or "float16" on this processor, as PyTorch asks it
    before it chooses (aten/src/ATen/native/mkldnn/Utils.h).

    A clock would not do: beside other programs all precisions are slow.
    """
    short = {"bfloat16": "bf16", "float16": "fp16"}[name]
    there = torch.backends.mkldnn.is_available()
    return there and bool(getattr(torch.ops.mkldnn, f"_is_mkldnn_{short}_supported")())


def times_as_long(channels: int = 32) -> float:
    """Seconds of a convolution with its gradients in bfloat16, over those in float32: the least of
    three each, taken in turn."""
    least = dict.fromkeys((torch.bfloat16, torch.float32), float("inf"))
    for _, dtype in product(range(3), least):
        images = torch.ones(4, channels, 16, 16, dtype=dtype, requires_grad=True)
        weight = torch.ones(channels, channels, 3, 3, dtype=dtype, requires_grad=True)
        start = time.perf_counter()
        conv2d(images, weight, padding=1).sum().backward()
        least[dtype] = min(least[dtype], time.perf_counter() - start)
    return least[torch.bfloat16] / least[torch.float32]
