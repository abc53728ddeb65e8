"""What the kernel counts of a rank at one moment, out of its reach.

Its tasks and what it has read: see "task" and "io" in proc(5). Opened files: hpml.ranks.inotify.
Processor time: the process's clock, as clock_getcpuclockid(3) names it, to the nanosecond, where
"stat" in proc(5) counts in hundredths of a second. Linux only.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpml.ranks import inotify

# The kernel reports equal events in a row as one: what comes between two opens keeps them apart
_WATCHED = inotify.OPEN | inotify.ACCESS | inotify.CLOSE
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h: what its threads ran
_ALL_EVENTS = 2**23  # bytes: more than the kernel keeps
MAX_PROCESSES = 1000  # below a rank


def tasks_of(pids: Sequence[int]) -> tuple[list[int], int]:
    """These processes and all below them, and how many threads they have together."""
    threads, processes = 0, [*pids]
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
    """How often the files of these names in `folder` were opened since, by whomever. Raises OSError
    where the folder cannot be watched."""

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._by_name: dict[str, int] | None = dict.fromkeys(names, 0)
        self._watched = inotify.Watched([folder], _WATCHED)

    def fileno(self) -> int:
        return self._watched.fileno()

    def look(self) -> dict[str, int] | None:
        """The opens so far, by the file's name; None where there were too many to see them all.

        Opens in a row count as one where nothing is read and nothing closed in between.
        """
        for mask, _, name in inotify.events(self._watched.read(_ALL_EVENTS)):
            if mask & inotify.OVERFLOW:
                self._by_name = None
            opened = mask & inotify.OPEN and name and not mask & inotify.IS_FOLDER
            known = name.decode("utf-8", "replace")
            if opened and self._by_name is not None and known in self._by_name:
                self._by_name[known] += 1
        return None if self._by_name is None else dict(self._by_name)


def counts_of(pids: Sequence[int], opens: Opens | None) -> dict[str, Any]:
    """The fields of `hpml.ranks.evidence.Counts`, for the rank that is process `pids[0]`.

    The other, where there is one, is the first of the rank's process namespace: below it come those
    whose parent has ended.
    """
    processes, threads = tasks_of(pids)
    read = [count for count in map(read_by, processes) if count is not None]
    used = [seconds for seconds in map(used_by, processes) if seconds is not None]
    return {
        "tasks": threads,
        "read_bytes": sum(read) if read else None,
        "opened": None if opens is None else opens.look(),
        "processor_seconds": sum(used) if used else None,
    }
