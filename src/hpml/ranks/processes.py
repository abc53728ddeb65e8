"""What processes of a launch ask the kernel for, and how all below one of them are ended."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import psutil


def interpreter() -> str:
    """This Python by its path where no folder is a link: a sandbox has what links lead to, alone.

    The environment may be one, in a copy of the course. The last part stays: it makes it one.
    """
    python = Path(sys.executable)
    return str(python.parent.resolve() / python.name)


def become_subreaper() -> None:
    if sys.platform == "linux":
        pr_set_child_subreaper = 36
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def die_with_parent(by: int = signal.SIGKILL) -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, int(by), 0, 0, 0)


def allow_looking_inside(allowed: bool) -> None:
    """Whether other processes of this user may read and change this one's memory and descriptors.

    Ranks run as the same user as the server and the supervisors, which must stay out of their
    reach: see "dumpable" in prctl(2) and ptrace(2).
    """
    if sys.platform == "linux":
        pr_set_dumpable = 4
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_dumpable, int(allowed), 0, 0, 0)


def kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def kill_descendants(limit: float = 5.0) -> bool:
    """Kill and reap every descendant of this process, those in other sessions too.

    Returns whether all were gone within `limit` seconds.
    """
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for child in psutil.Process().children(recursive=True):
            kill(child)
        if all_reaped(deadline=time.monotonic() + 0.01):
            return True
    return False


def all_reaped(deadline: float) -> bool:
    """Reap what has ended; whether no child is left by then. Orphans of a child that ended count:
    the kernel hands them over before its end can be seen."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)


def drain(fd: int) -> None:
    """Read all that is in a pipe that does not block."""
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        return
