"""Processes noted in files, and found again: by number and starting time, never by name."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process as the machine outside the cluster numbers it, and when it started, in ticks."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        return _started(self.pid) == self.started

    def kill(self, patience: float = 10.0) -> bool:
        """End it at once; whether it is gone after at most `patience` seconds."""
        if self.alive:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return True
        limit = time.monotonic() + patience
        while self.alive and time.monotonic() < limit:
            time.sleep(0.01)
        return not self.alive


def note(file: Path, outside: int) -> None:
    """Write down this process. `outside` is a descriptor of the /proc of the machine outside.

    A cluster has numbers of its own for its processes; /proc/self says the number that counts for
    who mounted that /proc.
    """
    pid = int(os.readlink("self", dir_fd=outside))
    started = _started(pid, outside)
    half = file.with_suffix(".half")
    half.write_text(f"{pid} {started}\n")
    half.rename(file)


def noted(file: Path) -> Process | None:
    """The process written down there, or None."""
    try:
        pid, started = file.read_text().split()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Process(int(pid), int(started))


def _started(pid: int, proc: int | None = None) -> int | None:
    """Its starting time (proc(5), stat, field 22); None where it has ended, zombies included."""
    try:
        descriptor = os.open(f"{pid}/stat" if proc else f"/proc/{pid}/stat", 0, dir_fd=proc)
        with open(descriptor) as file:
            after_name = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] in "ZX" else int(after_name[19])
