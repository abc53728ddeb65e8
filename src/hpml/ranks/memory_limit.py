"""How much memory a rank may use beyond what it was forked with: set by its supervisor.

A control group counts what its processes touch, and the kernel kills one of them when there is no
more. Where none can be made, a resource limit bounds the rank's private memory by what is mapped,
touched or not (RLIMIT_DATA of getrlimit(2)), and an allocation beyond it raises.
"""

import re
import resource
from pathlib import Path
from typing import Any

from hpml.errors import UserError

LEAST = 16 * 10**6  # bytes: less, and a rank cannot do anything
UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
GROUP, RESOURCE = "control group", "resource limit"
_REFUSED = ("can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc")


def parse(text: str) -> int:
    """The bytes that `text` means: "600mb", "1.5gb" (powers of ten), "512MiB" (of two).

    Raises UserError for anything else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]+)", text.strip().lower())
    if not found or found[2] not in UNITS:
        raise UserError(f"memory {text!r}: give a size, as in 600mb, 1.5gb or 512MiB")
    return check(int(float(found[1]) * UNITS[found[2]]))


def check(nbytes: int) -> int:
    """`nbytes`, where a rank can be limited to so many. Raises UserError."""
    if nbytes < LEAST:
        raise UserError(f"memory of {words(nbytes)}: give {words(LEAST)} or more for each rank")
    return nbytes


def words(nbytes: float) -> str:
    """ "600 MB", "1.5 GB": powers of ten."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes / 1000:.3g} kB"


class Limit:
    """Of one rank, set from outside. `by` is GROUP, RESOURCE, or "" where neither can be had."""

    def __init__(self, pid: int, nbytes: int) -> None:
        self._group = _group(nbytes)
        self.by = ""
        try:
            if self._group is not None:
                self._group.enter(pid)
                self.by = GROUP
                return
        except OSError:
            self.remove()
        if limit_mapped(pid, nbytes):
            self.by = RESOURCE

    def killed(self) -> bool:
        """Whether the kernel has killed the rank because it wanted more."""
        return self._group is not None and self._group.ran_out_of_memory()

    def remove(self) -> None:
        """Remove the control group, once its processes have ended."""
        if self._group is not None:
            self._group.remove()
            self._group = None


def _group(nbytes: int) -> Any:
    """A control group for one rank; None where none can be made."""
    try:
        from hpml.machine import control_group
    except ImportError:  # in a sandbox, where there is no more of the course than ranks need
        return None
    return control_group.make(nbytes)


def limit_mapped(pid: int, nbytes: int) -> bool:
    """Let the process map so much private memory beyond what it has; whether the system does."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        (mapped,) = (int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
        most = mapped + nbytes
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))
    except (OSError, ValueError, AttributeError):  # not Linux
        return False
    return True


def was_refused(kind: str, message: str) -> bool:
    """Whether an exception of this class name says that there was no memory."""
    text = message.lower()
    return kind.endswith("MemoryError") or any(words in text for words in _REFUSED)
