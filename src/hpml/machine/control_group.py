"""A control group for one sandbox, or one rank: the kernel limits its memory and its processes.

Every group gets one share of the processor, however many processes it has: an answer with a hundred
of them takes no time from the next one.

Kernel documentation: admin-guide/cgroup-v1 (memory.limit_in_bytes; pids.max; cpu.shares),
admin-guide/cgroup-v2 (memory.max, memory.swap.max, cpu.weight). Groups are made where this process
has the right to: usually as root, or in a container with groups of its own. Elsewhere `sandbox`
uses other limits.
"""

import contextlib
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpml.machine.cgroup import MEMBERSHIP, MOUNT

PREFIX = "hpml-"  # of a group's name; its maker follows
REMOVE_LIMIT = 5.0  # seconds for the kernel to let go of a group whose processes were killed


@dataclass(frozen=True)
class Group:
    """One group in each hierarchy needed. `folders` is empty where no group can be made."""

    folders: tuple[Path, ...]

    @property
    def entrances(self) -> list[str]:
        """The files to which a process writes its id to join the group, with all it starts."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def enter(self, pid: int) -> None:
        """Put a process, and what it starts from then on, into the group. Raises OSError."""
        for entrance in self.entrances:
            Path(entrance).write_text(str(pid))

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process because the group was at its memory limit."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):  # of version 2, of version 1
                with contextlib.suppress(OSError):
                    for line in (folder / name).read_text().splitlines():
                        if line.startswith("oom_kill ") and line != "oom_kill 0":
                            return True
        return False

    def remove(self) -> None:
        """Remove the group once the kernel has released the processes in it."""
        deadline = time.monotonic() + REMOVE_LIMIT
        for folder in self.folders:
            while folder.exists() and time.monotonic() < deadline:
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.01)


def make(
    memory: int,
    processes: int | None = None,
    mount: Path = MOUNT,
    membership: Path = MEMBERSHIP,
) -> Group | None:
    """A group of at most `memory` bytes and, if given, `processes` processes and threads; None if
    denied.

    Groups that a killed grader left behind are removed.
    """
    name = f"{_makers_here()}{os.getpid()}-{secrets.token_hex(6)}"
    unified = mount / "cgroup.controllers"
    if unified.exists():
        limits = {"memory.max": memory}
        if processes is not None:
            limits["pids.max"] = processes
        # Only the root group may have both processes and children ("no internal process").
        return _made({mount / name: limits}, optional={"memory.swap.max": 0})
    inside = _inside(membership)
    wanted: dict[str, dict[str, int]] = {"memory": {"memory.limit_in_bytes": memory}}
    if processes is not None:
        wanted["pids"] = {"pids.max": processes}
    if not wanted.keys() <= inside.keys():
        return None
    made = _made(
        {mount / kind / inside[kind] / name: limits for kind, limits in wanted.items()},
        optional={"memory.memsw.limit_in_bytes": memory},
    )
    if made is None or "cpu" not in inside:
        return made
    share = _made({mount / "cpu" / inside["cpu"] / name: {}}, optional={})
    return made if share is None else Group(made.folders + share.folders)


def _made(wanted: dict[Path, dict[str, int]], optional: dict[str, int]) -> Group | None:
    made = []
    try:
        for folder, limits in wanted.items():
            _forget_abandoned(folder.parent)
            folder.mkdir()
            made.append(folder)
            for file, value in limits.items():
                (folder / file).write_text(str(value))
            for file, value in optional.items():
                if (folder / file).exists():
                    with contextlib.suppress(OSError):  # swap is not counted by every kernel
                        (folder / file).write_text(str(value))
            if not os.access(folder / "cgroup.procs", os.W_OK):
                raise PermissionError
    except OSError:
        Group(tuple(made)).remove()
        return None
    return Group(tuple(made))


def _forget_abandoned(parent: Path) -> None:
    """Remove the groups in `parent` whose maker has ended; the kernel keeps those in use."""
    for folder in parent.glob(f"{_makers_here()}*-*"):
        maker = folder.name.removeprefix(_makers_here()).partition("-")[0]
        if maker.isdigit() and not psutil.pid_exists(int(maker)):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _makers_here() -> str:
    """How names of groups begin whose makers have their process ids in this process's namespace.

    A grader in another container, or on another node of a virtual cluster, has ids of its own.
    """
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not Linux
        namespace = 0
    return f"{PREFIX}{namespace}-"


def _inside(membership: Path) -> dict[str, str]:
    """This process's own group by version 1 controller: its path without the first slash."""
    found: dict[str, str] = {}
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path.lstrip("/"))
    return found
