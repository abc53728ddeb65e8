"""How fast memory can be read and written, over the working set: caches show as steps.

After STREAM (McCalpin 1995, Memory bandwidth and machine balance in current high performance
computers; rules at https://www.cs.virginia.edu/stream/ref.html). What is counted: every byte the
program asks to read, and every byte it writes. A cache that first fetches the line it is about to
overwrite moves more; that is not counted. Memory itself is measured with arrays of at least four
times the last cache, so that none of it can still be there from the run before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpml.errors import UserError
from hpml.machine import topology
from hpml.machine.resources import usable_memory
from hpml.machine.topology import Cache
from hpml.measure.clock import quickest, with_threads

NUMBER = 4  # bytes of a float32
NO_CACHE_KNOWN = Cache(3, "Unified", 64 * 2**20, (0,))  # more than most machines have
SMALLEST = 96 * 2**10  # bytes: below, the time is that of the call, not of the memory


@dataclass(frozen=True)
class Kernel:
    """`run(a, b, c, total)` on arrays of one size: so many `arrays` are read or written.

    `distinct`: how many they are, where one is both.
    """

    arrays: int
    run: Callable[[Tensor, Tensor, Tensor, Tensor], object]
    distinct: int = 0


KERNELS = {
    "read": Kernel(1, lambda a, b, c, total: torch.sum(a, dim=0, out=total)),
    "copy": Kernel(2, lambda a, b, c, total: c.copy_(a)),  # c = a
    "triad": Kernel(3, lambda a, b, c, total: torch.add(a, b, alpha=3.0, out=c)),  # c = a + 3 b
    # b = b + 3 a, as an optimizer writes: what is overwritten was read anyway
    "update": Kernel(3, lambda a, b, c, total: b.add_(a, alpha=3.0), distinct=2),
    # b = 1 b: as many bytes written as read, and no line is fetched only to be overwritten
    "in place": Kernel(2, lambda a, b, c, total: b.mul_(1.0), distinct=1),
}


def bandwidth(
    kernel: str,
    nbytes: int | None = None,
    threads: int = 1,
    device: torch.device | str = "cpu",
    seconds: float = 0.1,
) -> float:
    """Byte/s of one of KERNELS, by its name, on arrays that take `nbytes` between them.

    Without `nbytes`: each array as STREAM wants it (see `memory_bytes`). The time is that of the
    quickest run in so many `seconds`, less what the same call takes on arrays of 16 numbers.

    Raises KeyError for another kernel.
    """
    one = KERNELS[kernel]
    each = nbytes // (one.distinct or one.arrays) if nbytes else memory_bytes(device)
    length = max(16, each // NUMBER)
    with with_threads(threads):
        call = _seconds(one, 16, device, 0.01)
        whole = _seconds(one, length, device, seconds)
    return one.arrays * NUMBER * length / max(whole - call, 0.01 * whole)


def sweep(
    kernel: str, sizes: Sequence[int], threads: int = 1, seconds: float = 0.02
) -> dict[int, float]:
    """Byte/s by working set in bytes, as `bandwidth` has them. Where a working set no longer fits
    into a cache, there is a step down."""
    return {size: bandwidth(kernel, size, threads, seconds=seconds) for size in sizes}


def working_sets(per_octave: int = 2) -> list[int]:
    """Bytes from 96 KiB to three times one core's last cache or more: so many a doubling."""
    last = data_caches()[-1].nbytes
    sizes = [SMALLEST]
    while sizes[-1] < 3 * last:
        sizes.append(int(SMALLEST * 2 ** (len(sizes) / per_octave)))
    return sizes


def memory_bytes(device: torch.device | str = "cpu") -> int:
    """Bytes of each array that STREAM's rule asks for: four times all last caches together.

    Of a GPU that is its L2. At most 1/24 of the memory that this process may use.
    """
    if torch.device(device).type == "cuda":
        return 4 * max(torch.cuda.get_device_properties(device).L2_cache_size, 32 * 2**20)
    last = data_caches()
    together = sum(cache.nbytes for cache in last if cache.level == last[-1].level)
    return min(4 * together, usable_memory() // 24)


def data_caches() -> list[Cache]:
    """The caches for data of the cores that this process may use, the last level at the end.

    One of 64 MiB, where the system names none.
    """
    try:
        machine = topology.read()
    except UserError:
        return [NO_CACHE_KNOWN]
    allowed = set(machine.allowed)
    found = [c for c in machine.caches if c.kind != "Instruction" and allowed & set(c.cpus)]
    return sorted(found, key=lambda cache: cache.level) or [NO_CACHE_KNOWN]


def _seconds(kernel: Kernel, length: int, device: torch.device | str, seconds: float) -> float:
    # Filled, not only asked for: the kernel gives a page when it is first written.
    a, b, c = (torch.full((length,), 0.5, device=device) for _ in range(3))
    total = torch.empty((), device=device)
    return quickest(lambda: kernel.run(a, b, c, total), seconds, device)
