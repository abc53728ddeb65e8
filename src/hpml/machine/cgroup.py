"""What control groups allow this process: containers and SLURM jobs get less than the machine has.

Kernel documentation: admin-guide/cgroup-v2 (memory.max, cpu.max), admin-guide/cgroup-v1
(memory.limit_in_bytes; sched-bwc for cpu.cfs_quota_us and cpu.cfs_period_us).
"""

from collections.abc import Iterator
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def memory_limit(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int | None:
    """The least memory limit on this process, in bytes; None where there is none."""
    limits = [
        int(text)
        for folder in _folders("memory", mount, membership)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(folder / name)) and text != "max"
    ]
    # Version 1 writes "no limit" as the largest multiple of a page that fits in 63 bits.
    return min((limit for limit in limits if limit < 2**62), default=None)


def cpu_limit(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> float | None:
    """The least processor quota on this process, in cores; None where there is none."""
    limits = []
    for folder in _folders("cpu", mount, membership):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if not quota:
            quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota and period and quota not in ("max", "-1"):
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _folders(controller: str, mount: Path, membership: Path) -> Iterator[Path]:
    """The groups that this process is in and all above them; limits hold at every level."""
    for line in _read(membership).splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            top = mount / "unified" if (mount / "unified").is_dir() else mount
        elif controller in controllers.split(","):
            top = mount / controllers if (mount / controllers).is_dir() else mount / controller
        else:
            continue
        group = top / path.lstrip("/")
        yield group
        # Inside a container the path may be the host's, and the mount only the container's part.
        yield from (above for above in group.parents if above.is_relative_to(top))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
