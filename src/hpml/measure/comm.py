"""How fast ranks communicate: measured inside a launch or a job; and the α–β model of it."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

import numpy as np
import torch
import torch.distributed as dist

# Far below and far above a token bucket's burst (see `ping_pong`)
SIZES = (4, 256, 1_024, 1_000_000, 4_000_000)


def all_reduce_seconds(
    nbytes: int,
    repeats: int,
    reduce: Callable[[torch.Tensor], object] = dist.all_reduce,
    device: torch.device | str = "cpu",
) -> list[float]:
    """Seconds that each of `repeats` all-reduces of `nbytes` (float32) took on this rank.

    After a first one that is not counted; each begins when all ranks are ready. A collective.
    `reduce` is the all-reduce that is measured, on a tensor of this `device`.
    """
    tensor = torch.zeros(max(1, nbytes // 4), device=device)
    taken = []
    for _ in range(repeats + 1):
        dist.barrier()
        _synchronize(tensor)
        started = time.perf_counter()
        reduce(tensor)
        _synchronize(tensor)
        taken.append(time.perf_counter() - started)
    return taken[1:]


def bus_bandwidth(nbytes: int, world_size: int, seconds: Sequence[float]) -> float:
    """Bit/s that each rank must have sent for an all-reduce of `nbytes` to be done in `seconds`.

    `seconds` by rank; the last one counts. 2 (p-1)/p · n over the time, as nccl-tests defines it
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): whatever the number of
    ranks, a perfect all-reduce reaches the rate of the link.
    """
    return 8 * 2 * (world_size - 1) / world_size * nbytes / max(seconds)


def ping_pong(
    sizes: Sequence[int] = SIZES,
    repeats: int = 20,
    peer: int = 1,
    device: torch.device | str = "cpu",
) -> list[float]:
    """Seconds that a message of each of `sizes`, in bytes, takes from rank 0 to rank `peer`.

    A collective: every rank has the result. Rank 0 sends a message, the other answers with one of
    4 bytes; the result is the time of that, less half of the quickest round trip. It is the lower
    quartile of `repeats` (2 at least): other work on the machine only adds.

    A link that is limited by a token bucket (tc-tbf(8), the course's emulated ones) lets a burst
    through at full speed after a pause: 0.3 ms' worth at 1 Gbit/s (`hpml.network.veth.bucket`). The
    first message of each size, which has the burst, is not counted, and the answers are short, so
    that later ones find the bucket nearly empty. What is smaller than the burst is not limited by
    the rate, only by the processor: take `sizes` of some kilobytes at most, for the latency, and of
    several bursts, for the bandwidth, as `SIZES` are up to 2 Gbit/s.
    """
    rank = dist.get_rank()
    answer = torch.zeros(1, device=device)
    result = torch.zeros(len(sizes), dtype=torch.float64, device=device)
    if rank in (0, peer):
        other = peer - rank
        messages = [torch.zeros(max(1, nbytes // 4), device=device) for nbytes in (4, *sizes)]
        taken = [_round_trips(other, message, answer, repeats) for message in messages]
        back = min(map(min, taken)) / 2
        quick = [_lower_quartile(seconds) - back for seconds in taken[1:]]
        result += torch.tensor(quick, dtype=torch.float64, device=device)
    dist.broadcast(result, src=0)
    return result.tolist()


def _round_trips(
    other: int, message: torch.Tensor, answer: torch.Tensor, repeats: int
) -> list[float]:
    taken = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        if other:
            dist.send(message, other)
            dist.recv(answer, other)
        else:
            dist.recv(message, 0)
            dist.send(answer, 0)
        _synchronize(answer)
        taken.append(time.perf_counter() - started)
    return taken[1:]


def _lower_quartile(seconds: list[float]) -> float:
    return quantiles(seconds, n=4, method="inclusive")[0]


def _synchronize(tensor: torch.Tensor) -> None:
    """Wait until a GPU has done its work."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


@dataclass(frozen=True)
class Fit:
    """seconds = alpha + beta · bytes: seconds, seconds per byte, and their standard errors.

    The errors are NaN where there were only two sizes: a line goes through both.
    """

    alpha: float
    beta: float
    alpha_error: float
    beta_error: float

    @property
    def bandwidth(self) -> float:
        """Bit/s that large messages approach."""
        return 8 / self.beta

    def seconds(self, nbytes: float) -> float:
        return self.alpha + self.beta * nbytes

    def __str__(self) -> str:
        return (
            f"α = {_plain(self.alpha * 1e6, 3)} ± {_plain(self.alpha_error * 1e6, 2)} µs, "
            f"β = {_plain(self.beta * 1e9, 3)} ± {_plain(self.beta_error * 1e9, 2)} ns per byte "
            f"({_plain(self.bandwidth / 1e9, 3)} Gbit/s)"
        )


def _plain(number: float, digits: int) -> str:
    """Rounded to `digits` that count, and 1100 rather than 1.1e+03."""
    return f"{float(f'{number:.{digits}g}'):.9g}"


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Fit:
    """The line through `seconds` over `sizes` in bytes whose relative errors are least, squared.

    Least squares with weights 1 / seconds², so that microseconds of small messages, which give the
    latency, count as much as milliseconds of large ones. Standard errors from the residuals
    (Press et al. 2007, Numerical recipes, section 15.4).

    Raises ValueError where there are not two different sizes, and for times that are not positive.
    """
    n, t = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    if n.shape != t.shape or len(set(n)) < 2:
        raise ValueError(f"a line needs times of two sizes at least: {list(sizes)}")
    if not (t > 0).all():
        raise ValueError(f"times must be above 0: {list(seconds)}")
    scale = n.max()  # bytes in units of the largest, for the numerics
    design = np.stack([1 / t, n / scale / t], axis=1)
    (alpha, slope), *_ = np.linalg.lstsq(design, np.ones_like(t), rcond=None)
    free = len(t) - 2
    errors = (math.nan, math.nan)
    if free:
        residuals = design @ (alpha, slope) - 1
        covariance = np.linalg.inv(design.T @ design) * (residuals @ residuals) / free
        errors = tuple(np.sqrt(np.diag(covariance)))
    return Fit(float(alpha), float(slope / scale), float(errors[0]), float(errors[1] / scale))
