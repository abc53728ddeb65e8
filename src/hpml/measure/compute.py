"""How fast this processor computes: matrix products, the operation deep learning is made of."""

import statistics
import time

import torch


def matmul_rate(dtype: torch.dtype, threads: int, size: int = 2048, rounds: int = 9) -> float:
    """FLOP/s of the product of two [size, size] matrices of `dtype` on the CPU, at 2·size³ FLOPs.

    The median of `rounds`, after two for warm-up.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        left, right = (torch.rand(size, size).to(dtype) for _ in range(2))
        out = torch.empty(size, size, dtype=dtype)
        seconds = []
        for _ in range(rounds + 2):
            started = time.perf_counter()
            torch.mm(left, right, out=out)
            seconds.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
    return 2 * size**3 / statistics.median(seconds[2:])
