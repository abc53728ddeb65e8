"""Killing a rank while it writes a file, from outside: by its supervisor, at a moment that the rank
cannot know. See inotify(7); Linux only.
"""

import ctypes
import os
import struct
import sys
from dataclasses import dataclass

_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE = 0x2, 0x8, 0x40, 0x80, 0x100
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


@dataclass(frozen=True)
class Kill:
    """End `rank` by SIGKILL when it begins, for the `nth` time in the launch, to write a file in
    `folder`, which is there before the launch and is a path from the ranks' `cwd`.

    Sooner when it writes the file named `file` in place: that is then in parts.
    """

    rank: int
    folder: str
    nth: int = 1
    file: str = ""


def possible() -> bool:
    """Whether this system reports who writes where."""
    return sys.platform == "linux"


class Writings:
    """How often a process has `begun` to write a file in `folder`, and the names `written` there in
    place.

    A file that was moved here from elsewhere counts, one that was renamed here does not. Raises
    OSError where the folder cannot be watched.
    """

    def __init__(self, folder: str) -> None:
        self.begun = 0
        self.written: set[str] = set()
        self._open: set[bytes] = set()  # files being written
        self._renamed: set[int] = set()  # cookies of renamed files
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        mask = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(folder), mask) < 0:
            raise OSError(ctypes.get_errno(), f"{folder} cannot be watched")

    def fileno(self) -> int:
        return self._fd

    def look(self) -> int:
        """Take in what has happened; returns `begun`."""
        try:
            data = os.read(self._fd, 2**16)
        except BlockingIOError:
            data = b""
        while data:
            _, mask, cookie, length = _EVENT.unpack_from(data)
            name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
            data = data[_EVENT.size + length :]
            self._take(mask, cookie, name)
        return self.begun

    def _take(self, mask: int, cookie: int, name: bytes) -> None:
        if mask & _MOVED_FROM:
            self._renamed.add(cookie)
        elif mask & _MOVED_TO:
            self.begun += cookie not in self._renamed
        elif mask & _CLOSE_WRITE:
            self._open.discard(name)
        elif name not in self._open:
            self._open.add(name)
            self.written.add(os.fsdecode(name))
            self.begun += 1

    def close(self) -> None:
        os.close(self._fd)
