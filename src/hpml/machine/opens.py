"""How often files of a folder are opened, by whichever process: counted by the kernel, by inotify.

See inotify(7). Any user may watch a folder that they may read. What it does not see: opens on
another machine of a shared file system, and the folder's own opens (to list it), which are left out
here. Two equal events in a row become one where nobody has read the first, so closes are watched
as well: between two opens of a file by one process there is its close.
"""

import ctypes
import os
import struct
from pathlib import Path

IN_OPEN, IN_CLOSE, IN_Q_OVERFLOW, IN_ISDIR = 0x20, 0x18, 0x4000, 0x40000000
IN_NONBLOCK, IN_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
HEAD = struct.Struct("iIII")  # watch, mask, cookie, length of the name
BUFFER = 2**16


class Opens:
    """Counts from here on how often a file in `folder` (and in the folders below) is opened.

    `drain` must be called before the kernel's queue is full, which takes 16,384 events where
    nobody has changed it (/proc/sys/fs/inotify/max_queued_events): an open and its close are two.
    Raises OSError where the folder cannot be watched, and when events were lost.
    """

    def __init__(self, folder: Path):
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
        if self._file < 0:
            raise _error("inotify_init1", folder)
        self.count = 0
        self.reads = 0  # read calls of `drain`, which the kernel counts as its caller's own
        self.bytes = 0  # what they returned
        for inside, _, _ in os.walk(folder):
            watch = libc.inotify_add_watch(self._file, os.fsencode(inside), IN_OPEN | IN_CLOSE)
            if watch < 0:
                error = _error("inotify_add_watch", inside)
                os.close(self._file)
                raise error
        self.drain()
        self.count = 0  # os.walk has opened the folders

    def drain(self) -> int:
        """Take what the kernel has queued; the number of opens until now."""
        while True:
            self.reads += 1
            try:
                content = os.read(self._file, BUFFER)
            except BlockingIOError:
                return self.count
            self.bytes += len(content)
            place = 0
            while place < len(content):
                _, mask, _, length = HEAD.unpack_from(content, place)
                place += HEAD.size + length
                if mask & IN_Q_OVERFLOW:
                    raise OSError("inotify: the queue was full, opens were lost: drain more often")
                self.count += bool(mask & IN_OPEN and not mask & IN_ISDIR)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> "Opens":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _error(call: str, folder: str | Path) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}", str(folder))
