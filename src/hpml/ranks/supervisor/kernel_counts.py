"""What the kernel counts of a rank at one moment, out of its reach.

Its tasks and what it has read: see "task" and "io" in proc(5). Opened files: hpml.machine.inotify.
Processor time: the process's clock, as clock_getcpuclockid(3) names it, to the nanosecond, where
"stat" in proc(5) counts in hundredths of a second. Linux only.
"""

import contextlib
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hpml.machine import inotify

# The kernel reports equal events in a row as one: what comes between two opens keeps them apart
_WATCHED = inotify.OPEN | inotify.ACCESS | inotify.CLOSE
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h: what its threads ran
_ALL_EVENTS = 2**23  # bytes: more than the kernel keeps
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


def used_by(pid: int) -> float | None:
    """Seconds of processor time of all threads of process `pid`, and of the children that it has
    waited for; None where that cannot be seen."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        own = time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
        # Fields 16 and 17, counted behind the name, which may have blanks and brackets
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return own + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return None


class Opens:
    """How often each file in `folder` was opened since, by whomever. Raises OSError where the
    folder cannot be watched."""

    def __init__(self, folder: str) -> None:
        self._by_name: Counter[str] | None = Counter()
        self._watched = inotify.Watched([folder], _WATCHED)

    def fileno(self) -> int:
        return self._watched.fileno()

    def look(self) -> dict[str, int] | None:
        """The opens so far, by the file's name; None where there were too many to see them all.

        Opens in a row count as one where nothing is read and nothing closed in between.
        """
        for mask, name in inotify.events(self._watched.read(_ALL_EVENTS)):
            if mask & inotify.OVERFLOW:
                self._by_name = None
            opened = mask & inotify.OPEN and name and not mask & inotify.IS_FOLDER
            if opened and self._by_name is not None:
                self._by_name[name.decode("utf-8", "replace")[:MAX_NAME]] += 1
                if len(self._by_name) > MAX_NAMES:
                    self._by_name = None
        return None if self._by_name is None else dict(self._by_name)


def counts_of(pid: int | None, opens: Opens | None) -> dict[str, Any]:
    """The fields of `hpml.ranks.evidence.Counts`, for the rank that is process `pid`."""
    processes, threads = ([], 0) if pid is None else tasks_of(pid)
    read = [count for count in map(read_by, processes) if count is not None]
    used = [seconds for seconds in map(used_by, processes) if seconds is not None]
    return {
        "tasks": threads,
        "read_bytes": sum(read) if read else None,
        "opened": None if opens is None else opens.look(),
        "processor_seconds": sum(used) if used else None,
    }
