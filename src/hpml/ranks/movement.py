"""Whether a process is getting anywhere, as the operating system sees it."""

import contextlib
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
    """Whether a thread of the process wants a processor or a disk right now, or sleeps until a set
    time and goes on by itself (that only on Linux)."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():  # not Linux, or the process is gone
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(pid).status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
        return False
    return any(_wants_to_go_on(task) for task in tasks.glob("[0-9]*"))


def _wants_to_go_on(task: Path) -> bool:
    try:
        # The state follows the name, which is in brackets and may hold any character.
        if (task / "stat").read_text().rpartition(")")[2].split()[0] in "RD":
            return True
        return (task / "syscall").read_text().split(maxsplit=1)[0] in _SLEEPING_CALLS
    except (OSError, IndexError):  # the thread ended, or the kernel does not tell
        return False
