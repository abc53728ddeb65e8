"""Memory that a rank and its proxy share, in which tensors lie while Gloo works on them.

The rank decides where: it copies what it sends to a place, and copies what arrived from there. The
proxy gets places as numbers and believes none of them before `Arena.tensor` has checked it.
"""

import mmap
import sys
import threading
from bisect import bisect
from collections.abc import Sequence
from math import prod

import torch

SIZE = 2**30  # bytes, of which only those ever used take memory
ALIGNED = 64  # bytes: each tensor begins at a multiple of it
PART = 2**20  # bytes copied at once where the copy is not to count as the rank's memory

_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE of mmap(2)


class Full(RuntimeError):
    """There is no room for the tensors of one more call."""


class Arena:
    """Shared memory, made before the fork of the two that share it."""

    def __init__(self, size: int = SIZE) -> None:
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE
        self._memory = mmap.mmap(-1, size, flags)
        self.size = size
        self.let_go = False  # of each part that was copied: what stays mapped is the rank's memory

    def tensor(self, dtype: torch.dtype, shape: Sequence[int], offset: int) -> torch.Tensor:
        """The tensor at `offset`, in the shared memory itself.

        Raises ValueError for a place that is not wholly inside, and for one that is not aligned.
        """
        count = prod(shape)
        if min(shape, default=0) < 0:
            raise ValueError(f"a tensor of shape {tuple(shape)}")
        if count == 0:
            return torch.empty(tuple(shape), dtype=dtype)
        if offset % ALIGNED or not 0 <= offset <= self.size - count * dtype.itemsize:
            raise ValueError(f"{count} elements of {dtype} at {offset}")
        with torch._C._DisableTorchDispatch():  # not one of the rank's: see `.live`
            flat = torch.frombuffer(self._memory, dtype=dtype, count=count, offset=offset)
            return flat.reshape(tuple(shape))

    def copy(self, target: torch.Tensor, source: torch.Tensor, offset: int) -> None:
        """Copy a tensor; one of the two is that at `offset` of this memory."""
        with torch._C._DisableTorchDispatch():
            self._copy(target, source, offset)

    def _copy(self, target: torch.Tensor, source: torch.Tensor, offset: int) -> None:
        if not self.let_go:
            target.copy_(source)
            return
        size = source.element_size()
        if not (target.is_contiguous() and source.is_contiguous()):
            target.copy_(source)
            self._let_go(offset, source.numel() * size)
            return
        step = PART // size
        for start in range(0, source.numel(), step):
            part = source.view(-1)[start : start + step]
            target.view(-1)[start : start + step].copy_(part)
            self._let_go(offset + start * size, part.numel() * size)

    def _let_go(self, offset: int, nbytes: int) -> None:
        """Unmap these pages here. What is in them stays, and is mapped again when it is read."""
        start = offset // mmap.PAGESIZE * mmap.PAGESIZE
        self._memory.madvise(mmap.MADV_DONTNEED, start, offset + nbytes - start)

    def leave(self) -> None:
        """Give up this process's view of the memory."""
        self._memory.close()


class Places:
    """Which parts of an arena are in use: the rank's side. Methods may be called by any thread."""

    def __init__(self, size: int = SIZE) -> None:
        self._free = [(0, size)]  # (offset, bytes), in order, no two of them adjacent
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> int:
        """The offset of `nbytes` that are free until now. Raises Full."""
        nbytes = aligned(nbytes)
        with self._lock:
            for i, (offset, free) in enumerate(self._free):
                if free >= nbytes:
                    self._free[i : i + 1] = [(offset + nbytes, free - nbytes)][: free > nbytes]
                    return offset
        raise Full(f"no room for {nbytes} more bytes of tensors in calls that have not ended")

    def give_back(self, offset: int, nbytes: int) -> None:
        """What `take(nbytes)` returned is free again."""
        begin, end = offset, offset + aligned(nbytes)
        with self._lock:
            first = last = bisect(self._free, (begin, end))
            if first > 0 and sum(self._free[first - 1]) == begin:
                first -= 1
                begin = self._free[first][0]
            if last < len(self._free) and self._free[last][0] == end:
                end += self._free[last][1]
                last += 1
            self._free[first:last] = [(begin, end - begin)]


def aligned(nbytes: int) -> int:
    """`nbytes`, or at least one, in whole units of ALIGNED."""
    return -(-max(nbytes, 1) // ALIGNED) * ALIGNED
