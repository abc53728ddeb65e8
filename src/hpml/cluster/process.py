"""Pid files: a process is found again by its pid and starting time, never by its name."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process: its pid on the machine outside the cluster, and its starting time in ticks."""

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


def write_pid_file(file: Path, outside: int) -> None:
    """Write this process to `file`. `outside` is a descriptor of the outer machine's /proc.

    The cluster has a pid namespace of its own; that /proc's `self` links to the pid outside it.
    """
    pid = int(os.readlink("self", dir_fd=outside))
    started = _started(pid, outside)
    half = file.with_suffix(".half")
    half.write_text(f"{pid} {started}\n")
    half.rename(file)


def read_pid_file(file: Path) -> Process | None:
    """The process in a pid file; None where there is no file."""
    try:
        pid, started = file.read_text().split()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Process(int(pid), int(started))


def _started(pid: int, proc: int | None = None) -> int | None:
    """A process's starting time (proc(5), stat, field 22); None once it has ended (a zombie)."""
    try:
        descriptor = os.open(f"{pid}/stat" if proc else f"/proc/{pid}/stat", 0, dir_fd=proc)
        with open(descriptor) as file:
            after_name = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] in "ZX" else int(after_name[19])
