"""Freed memory, kept by the process: for good, or for a while."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

# Values of <malloc.h>.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next step, and not return it to the kernel.

    Activations of tens of megabytes are freed and asked for again in each step. By default each of
    them is a fresh mapping, whose pages the kernel clears one by one as they are first written:
    about an eighth of the time of a step. Does nothing where there is no glibc.
    """
    _set({MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 256 << 20})


@contextlib.contextmanager
def freed_memory_kept() -> Iterator[None]:
    """`keep_freed_memory` for a while.

    Afterwards the kernel gets it back, and glibc has the thresholds that its own adjusting arrives
    at once large arrays were freed (mallopt(3), M_MMAP_THRESHOLD): 32 MiB, and twice that to trim.
    """
    keep_freed_memory()
    try:
        yield
    finally:
        _set(
            {MMAP_MAX: 65_536, MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 64 << 20, TOP_PAD: 1 << 17}
        )
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def _set(options: dict[int, int]) -> None:
    """glibc's mallopt; nothing where there is none."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options.items():
            mallopt(option, value)
