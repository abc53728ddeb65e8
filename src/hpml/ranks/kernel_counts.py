"""By the supervisor, out of the ranks' reach: what the kernel counts of a rank at one moment.

Its tasks and what it has read: see "task" and "io" in proc(5). Opened files: see inotify(7). Linux
only.
"""

import contextlib
import ctypes
import os
import struct
from collections import Counter
from pathlib import Path
from typing import Any

_ACCESS, _CLOSE, _OPEN, _OVERFLOW, _IS_FOLDER = 0x1, 0x18, 0x20, 0x4000, 0x40000000
# The kernel reports equal events in a row as one: what comes between two opens keeps them apart
_WATCHED = _OPEN | _ACCESS | _CLOSE
_ALL_EVENTS = 2**23  # bytes: more than the kernel keeps
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
MAX_NAMES = 100  # of opened files: what is found is sent to the parent
MAX_NAME = 100  # characters
MAX_PROCESSES = 1000  # below a rank


def tasks_of(pid: int) -> tuple[list[int], int]:
    """Process `pid` and all processes below it, and how many threads they have together."""
    threads, processes = 0, [pid]
    for process in processes:
        with contextlib.suppress(OSError):  # it is gone
            for task in os.scandir(f"/proc/{process}/task"):
                threads += 1
                with contextlib.suppress(OSError):
                    children = Path(task.path, "children").read_text().split()
                    processes += map(int, children[: MAX_PROCESSES - len(processes)])
    return processes, threads


def read_by(pid: int) -> int | None:
    """Bytes that system calls of process `pid` have read; None where that cannot be seen."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            name, _, value = line.partition(": ")
            if name == "rchar":
                return int(value)
    return None


class Opens:
    """How often each file in `folder` was opened since, by whomever. Raises OSError where the
    folder cannot be watched."""

    def __init__(self, folder: str) -> None:
        self._by_name: Counter[str] | None = Counter()
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            raise OSError("only Linux reports when a file is opened")
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(folder), _WATCHED) < 0:
            number = ctypes.get_errno()
            if self._fd >= 0:
                os.close(self._fd)
            raise OSError(number, f"{folder} cannot be watched")

    def fileno(self) -> int:
        return self._fd

    def look(self) -> dict[str, int] | None:
        """The opens so far, by the file's name; None where there were too many to see them all.

        Opens in a row count as one where nothing is read and nothing closed in between.
        """
        try:
            data = os.read(self._fd, _ALL_EVENTS)
        except BlockingIOError:
            data = b""
        while data:
            _, mask, _, length = _EVENT.unpack_from(data)
            name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
            data = data[_EVENT.size + length :]
            if mask & _OVERFLOW:
                self._by_name = None
            elif mask & _OPEN and name and not mask & _IS_FOLDER and self._by_name is not None:
                self._by_name[name.decode("utf-8", "replace")[:MAX_NAME]] += 1
                if len(self._by_name) > MAX_NAMES:
                    self._by_name = None
        return None if self._by_name is None else dict(self._by_name)


def counts_of(pid: int | None, opens: Opens | None) -> dict[str, Any]:
    """The fields of `hpml.ranks.evidence.Counts`, for the rank that is process `pid`."""
    processes, threads = ([], 0) if pid is None else tasks_of(pid)
    read = [count for count in map(read_by, processes) if count is not None]
    return {
        "tasks": threads,
        "read_bytes": sum(read) if read else None,
        "opened": None if opens is None else opens.look(),
    }
