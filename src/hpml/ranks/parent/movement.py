"""Whether a process is getting anywhere, as the operating system sees it."""

import contextlib
import os
import platform
from pathlib import Path

import psutil

# nanosleep and clock_nanosleep, by their numbers in the kernel's tables
_SLEEPING_CALLS = {"x86_64": ("35", "230"), "aarch64": ("101", "115")}.get(platform.machine(), ())


def processor_seconds(pid: int, with_children: bool = False, without: str = "") -> float:
    """User and system seconds that the process has used; of its descendants too where asked.

    Threads named `without` are left out, in the process itself, as long as they live.
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
    return total - (_of_threads(pid, without) if without else 0.0)


def _of_threads(pid: int, name: str) -> float:
    """Seconds of the process's threads of that name. Linux only, elsewhere 0.0."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            head, _, rest = task.read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        if head.partition("(")[2] == name:
            user, system = rest.split()[11:13]
            total += int(user) + int(system)
    return total / os.sysconf("SC_CLK_TCK")


def seconds_without_core(pid: int) -> float:
    """How long the process's main thread could have run, and had no core. Linux only, else 0.0."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # it is gone, or this kernel does not count
        return 0.0


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


def is_busy(pid: int, without: str = "", with_children: bool = False) -> bool:
    """Whether a thread of the process wants a processor or a disk right now, or sleeps until a set
    time and goes on by itself (that only on Linux). Threads named `without` do not count.

    With `with_children` also whether a process that it has started wants one: on a busy machine it
    may not get it for a while, as a DataLoader's worker that the process waits for.
    """
    if with_children and any(map(_wants_to_run, _children(pid))):
        return True
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():  # not Linux, or the process is gone
        with contextlib.suppress(psutil.NoSuchProcess):
            return _wants_to_run(psutil.Process(pid))
        return False
    return any(_wants_to_go_on(task, without) for task in tasks.glob("[0-9]*"))


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _wants_to_run(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
    except psutil.NoSuchProcess:
        return False


def _wants_to_go_on(task: Path, without: str) -> bool:
    try:
        # The name is in brackets and may hold any character; the state follows.
        head, _, rest = (task / "stat").read_text().rpartition(")")
        if without and head.partition("(")[2] == without:
            return False
        if rest.split()[0] in "RD":
            return True
        return (task / "syscall").read_text().split(maxsplit=1)[0] in _SLEEPING_CALLS
    except (OSError, IndexError):  # the thread ended, or the kernel does not report it
        return False
