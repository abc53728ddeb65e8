"""Whether a process is getting anywhere, as the operating system sees it."""

import platform
from pathlib import Path

import psutil

# nanosleep and clock_nanosleep, by their numbers in the kernel's tables
_SLEEPING_CALLS = {"x86_64": ("35", "230"), "aarch64": ("101", "115")}.get(platform.machine(), ())


def processor_seconds(pid: int, with_children: bool = False) -> float:
    """User and system seconds that the process has used; of its descendants too where asked.

    0.0 when it is gone.
    """
    try:
        process = psutil.Process(pid)
        family = [process, *(process.children(recursive=True) if with_children else [])]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for member in family:
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def network_bytes(pid: int, interface: str) -> int:
    """What has gone in and out of `interface` of the network that the process is on. Linux only.

    0 when the process or the interface is not there.
    """
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return 0
    for name, _, counters in (line.partition(":") for line in lines):
        if name.strip() == interface:
            received, sent = counters.split()[0], counters.split()[8]
            return int(received) + int(sent)
    return 0


def is_busy(pid: int) -> bool:
    """Whether the process wants a processor or a disk right now, or sleeps until a set time."""
    try:
        if psutil.Process(pid).status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP):
            return True
    except psutil.NoSuchProcess:
        return False
    return _sleeps(pid)


def _sleeps(pid: int) -> bool:
    """Whether a thread is in time.sleep: it will go on by itself. Linux only, elsewhere False."""
    for task in Path(f"/proc/{pid}/task").glob("*/syscall"):
        try:
            if task.read_text().split(maxsplit=1)[0] in _SLEEPING_CALLS:
                return True
        except OSError:  # the thread ended, or the kernel does not tell
            continue
    return False
