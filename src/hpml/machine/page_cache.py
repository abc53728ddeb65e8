"""Which pages of files the kernel keeps in memory, and how an ordinary user makes it forget them.

posix_fadvise(2) with POSIX_FADV_DONTNEED drops the clean pages of a file that nobody has mapped;
mincore(2) reports which pages are there. Names and inodes stay in caches of their own, which only
root can drop (/proc/sys/vm/drop_caches, for the whole machine: not done here). On a tmpfs such as
/dev/shm the pages *are* the file, and nothing is dropped.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

PAGE = mmap.PAGESIZE


def drop(folder: Path, *, written: bool = True) -> float:
    """Make the kernel forget what the files in `folder` contain; the share that it still holds.

    0.0 is a cold cache, proven by mincore; on a tmpfs it is 1.0. What was written lately goes to
    the disk first, all at once: ten thousand calls of fsync would be as many flushes of the disk.
    Without `written`, nothing was written since the last call, and that wait is left out.
    """
    if written:
        _sync(folder)
    for path in _files(folder):
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
    return resident(folder)


def resident(folder: Path) -> float:
    """The share of the pages of the files in `folder` that are in memory; 1.0 for no pages."""
    libc = ctypes.CDLL(None, use_errno=True)
    there = pages = 0
    for path in _files(folder):
        file = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            if size:
                there += _resident(libc, file, size)
                pages += -(-size // PAGE)
        finally:
            os.close(file)
    return there / pages if pages else 1.0


def _sync(folder: Path) -> None:
    """Write what is unwritten on the file system of `folder`, by syncfs(2)."""
    file = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(file):
            number = ctypes.get_errno()
            raise OSError(number, f"syncfs: {os.strerror(number)}", str(folder))
    finally:
        os.close(file)


def _resident(libc: ctypes.CDLL, file: int, size: int) -> int:
    """Pages in memory of an open file. ctypes wants the map writable: it is private, and unused."""
    with mmap.mmap(file, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        found = (ctypes.c_ubyte * -(-size // PAGE))()
        failed = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), found
        )
        del first  # else the map cannot be closed
        if failed:
            number = ctypes.get_errno()
            raise OSError(number, f"mincore: {os.strerror(number)}")
    return sum(byte & 1 for byte in bytes(found))


def _files(folder: Path) -> Iterator[str]:
    for inside, _, names in os.walk(folder):
        yield from (os.path.join(inside, name) for name in names)
