"""What the kernel reports of folders that are watched: see inotify(7). Linux only.

Any user may watch a folder that they may read. Opens on another machine of a shared file system are
not seen.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

ACCESS, CLOSE, OPEN, OVERFLOW, IS_FOLDER = 0x1, 0x18, 0x20, 0x4000, 0x40000000
# What the machine may lack; that a folder is not there, or may not be read, is its user's doing
_LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.ENOSYS)
_HEAD = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


class CannotWatch(OSError):
    """This machine cannot watch one more folder. The message is why."""


class Watched:
    """Events of `mask` in these folders, from here on. Raises OSError where one cannot be watched,
    CannotWatch where no folder can be.

    The kernel reports equal events in a row as one. It keeps 16,384 where nobody has changed that
    (/proc/sys/fs/inotify/max_queued_events), and then one of OVERFLOW.
    """

    def __init__(self, folders: Iterable[str | Path], mask: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            raise OSError("only Linux reports when a file is opened")
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise _error("inotify_init1", "")
        for folder in folders:
            if libc.inotify_add_watch(self._file, os.fsencode(folder), mask) < 0:
                error = _error("inotify_add_watch", folder)
                os.close(self._file)
                raise error

    def fileno(self) -> int:
        return self._file

    def read(self, nbytes: int) -> bytes:
        """What is there, by one read of at most so many bytes; empty where nothing is."""
        try:
            return os.read(self._file, nbytes)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self._file)


def events(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The mask of each event that was read, its cookie (two events of one move have the same), and
    the file's name in its folder."""
    place = 0
    while place < len(content):
        _, mask, cookie, length = _HEAD.unpack_from(content, place)
        begin, place = place + _HEAD.size, place + _HEAD.size + length
        yield mask, cookie, content[begin:place].rstrip(b"\0")


def _error(call: str, folder: str | Path) -> OSError:
    number = ctypes.get_errno()
    kind = CannotWatch if number in _LACKING else OSError
    return kind(number, f"{call}: {os.strerror(number)}", str(folder))
