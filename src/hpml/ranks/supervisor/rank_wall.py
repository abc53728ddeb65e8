"""The wall around one rank in a sandbox: ranks reach each other through their network alone.

All ranks of a launch run the same answer, which may want one of them to do the work and report for
the rest. Each rank therefore has process, mount, IPC and user namespaces of its own: it sees no
process but its own, sends no signal to another, and has a new /tmp and /dev/shm, which end with it.
System calls that take hold of another process are refused (`hpml.ranks.supervisor.seccomp`).

See namespaces(7), pid_namespaces(7), user_namespaces(7).
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpml.network.emulation import drop_privileges, libc_call
from hpml.ranks.supervisor import seccomp, wall

# sched.h
_NEW_MOUNTS, _NEW_IPC, _NEW_PIDS = 0x20000, 0x8000000, 0x20000000

# The first process of a rank's namespace. Not the rank, which would then not be ended by signals
# as a process usually is; and nothing forked, since that costs milliseconds.
_FIRST = ("/bin/sleep", "infinity")
KEPT = "hpml-kept"  # in a sandbox's /tmp: folders that outlive a launch


@dataclass(frozen=True)
class RankWall:
    """How ranks in a sandbox are kept apart.

    `disk` is the size in bytes of /tmp, and of /dev/shm, which ranks have an equal share of. None
    where this kernel allows no namespaces inside bubblewrap's: then system calls are refused, and
    no more.
    """

    disk: int | None = None

    def share(self, ranks: int) -> "RankWall":
        """The wall around each of so many ranks."""
        return RankWall(None if self.disk is None else self.disk // ranks)


class ProcessNamespaces:
    """A process namespace for each of a supervisor's ranks. The supervisor stays in its own."""

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self.first: list[int] = []  # process 1 of each; when it is killed, the kernel ends the rest

    def make(self) -> None:
        """What is forked next is in a new namespace."""
        libc_call("unshare", _NEW_PIDS)
        self.first.append(os.posix_spawn(_FIRST[0], _FIRST, {}))

    def come_back(self) -> None:
        """What is forked next is in this process's own namespace."""
        libc_call("setns", self._own, _NEW_PIDS)

    def close(self) -> None:
        os.close(self._own)


def sweep(around: RankWall, kept: str | None) -> None:
    """Remove what earlier launches in this sandbox have left, but for the folder `kept`, in KEPT.

    No other launch may be under way in the sandbox. A submission is judged in one at a time.
    """
    _empty(os.path.join("/tmp", KEPT), {os.path.basename(kept or "")})
    if around.disk is None:  # else nothing but KEPT is left: each rank had its own
        mounted = {path.split("/")[2] for path in wall.mounted_below("/tmp")}
        _empty("/tmp", {KEPT, *mounted})
        _empty("/dev/shm", set())


def _empty(folder: str, keep: set[str]) -> None:
    """Remove all in `folder` but `keep`. Raises OSError where something cannot be removed."""

    def again(remove: Callable[[str], None], path: str, _: object) -> None:
        os.chmod(os.path.dirname(path), 0o700)  # of a folder that its owner may not write to
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path)
        else:
            os.unlink(path)

    names = os.listdir(folder) if os.path.isdir(folder) else []
    for path in (os.path.join(folder, name) for name in names if name not in keep):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, onerror=again)
        else:
            os.unlink(path)


def close(
    around: RankWall,
    shared: Sequence[str],
    cwd: str,
    *,
    proxied: bool,
    covered: Sequence[str],
    programs: bool,
) -> None:
    """Make the rest of the wall around this process, a rank, which must have one thread.

    `shared` are folders in /tmp that it has in common with other ranks or launches; `cwd` is made
    if it is not there. A `proxied` rank locks no file. Nothing that it does shows it what is in the
    files `covered`. Without `programs` it executes none. Raises OSError where the kernel refuses
    something.
    """
    os.setsid()  # else kill(0) would reach the supervisor and the other ranks
    if around.disk is not None:
        libc_call("unshare", _NEW_MOUNTS | _NEW_IPC)
        wall.own_folders(around.disk, shared)
        wall.cover(covered)
        wall.become_nobody()
        os.makedirs(cwd, exist_ok=True)
    drop_privileges()
    seccomp.install(flock=proxied, programs=not programs)
