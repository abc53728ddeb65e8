"""How much memory a process has taken, as the kernel counts it, read by another process.

The kernel keeps the highest resident set size of a process (VmHWM in /proc/PID/status) until
somebody writes 5 to /proc/PID/clear_refs: see proc_pid_status(5) and proc_pid_clear_refs(5).
"""

from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY = 0.005  # seconds between two looks where memory is counted
_RESET_PEAK = "5"
# By which a peak that nobody set back may fall: the kernel keeps a count on each processor, and
# adds them up only roughly ("this value is inaccurate", says proc_pid_status(5))
_ROUGHLY = 2**20


@dataclass(frozen=True)
class Resident:
    """Bytes of a process: anonymous and shared memory, parts of files that are mapped, and the
    highest that both together have been."""

    own: int
    files: int
    peak: int


def look(pid: int) -> Resident | None:
    """What the process holds, and its peak. None where it is gone, or the system is not Linux."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    found = {name: text for name, _, text in (line.partition(":") for line in lines)}
    names = ("RssAnon", "RssShmem", "RssFile", "VmHWM")
    try:
        anonymous, shared, files, peak = (1024 * int(found[name].split()[0]) for name in names)
    except (KeyError, IndexError, ValueError):  # a zombie has none
        return None
    return Resident(anonymous + shared, files, peak)


class Count:
    """What one process takes from a moment on. `pid` is a child of this process.

    Mapped files do not count: a process touches ever more of its libraries, 50 MB of PyTorch's in
    its first training steps. They are in the kernel's peak, so what is mapped at a look is taken
    off. What is mapped between a peak and the next look is taken off too much.

    A process can set its own peak back, by the same file. Its peak is then lower at one look than
    at the one before, which `set_back` notes; what was seen until then still counts.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: Resident | None = None
        self._last: Resident | None = None
        self._most = 0
        self.set_back = False

    def begin(self) -> None:
        """Count from here on. Where the kernel does not allow it, nothing is counted."""
        self._before = None
        try:
            Path(f"/proc/{self._pid}/clear_refs").write_text(_RESET_PEAK)
        except OSError:  # not Linux, a kernel without it, or the process is gone
            return
        self._before = self._last = look(self._pid)
        self._most = 0

    def begin_again(self) -> None:
        """From now on the peak is that of another run, beyond what was held at the beginning."""
        before = self._before
        self.begin()
        self._before = self._before and before

    def look(self) -> None:
        """Take in what it holds now, and its peak."""
        if self._last is not None and (seen := look(self._pid)) is not None:
            self.set_back = self.set_back or seen.peak < self._last.peak - _ROUGHLY
            self._most = max(self._most, seen.peak - seen.files)
            self._last = seen

    def ended(self, peak: int) -> None:
        """Take in the peak that the kernel reports when the process is reaped, see wait4(2)."""
        if self._last is not None:
            self._most = max(self._most, peak - self._last.files)

    @property
    def peak_bytes(self) -> int | None:
        """The most that it held at one time beyond what it held at the beginning. None where the
        system does not count it."""
        return None if self._before is None else max(self._most - self._before.own, 0)
