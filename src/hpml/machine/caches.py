"""The processor's caches, as Linux describes them."""

from dataclasses import dataclass
from pathlib import Path

SYSFS = Path("/sys/devices/system/cpu")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Cache:
    """One cache that holds data: its level (1 is next to the core), bytes, cores that share it."""

    level: int
    nbytes: int
    cores: int

    def __str__(self) -> str:
        unit = "MiB" if self.nbytes >= UNITS["M"] else "KiB"
        return f"L{self.level}, {self.nbytes / UNITS[unit[0]]:g} {unit}"


def caches(core: int = 0, sysfs: Path = SYSFS) -> list[Cache]:
    """The data caches that a core uses, from the smallest; empty where Linux does not name them.

    From cpuN/cache/index*/ (Linux, Documentation/ABI/testing/sysfs-devices-system-cpu).
    """
    found = []
    for folder in sorted(sysfs.glob(f"cpu{core}/cache/index*")):
        try:
            level, kind, size, shared = (
                (folder / name).read_text().strip()
                for name in ("level", "type", "size", "shared_cpu_list")
            )
        except OSError:
            continue
        if kind != "Instruction":
            nbytes = int(size[:-1]) * UNITS[size[-1]]
            found.append(Cache(int(level), nbytes, _count(shared)))
    return sorted(found, key=lambda cache: cache.level)


def _count(cores: str) -> int:
    """How many cores a list like "0-3,8" names."""
    ends = [part.split("-") for part in cores.split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
