"""A sandbox for one submission: bubblewrap around the warm server that its ranks are forked from.

    grader ── control socket ──► bwrap ► warm server ► supervisor ► ranks
                                 └ user, mount, pid, net, ipc and uts namespaces of its own

What runs inside sees the system and the interpreter, read-only, and of this package what ranks are
made of (`hpml.ranks`), but no checks, no solutions, no submissions, no home. It may write to a /tmp
and a /dev/shm of its own, of limited size, that go with it. There is no network but loopback, and
the links that a launch makes itself. Every process started inside ends with the sandbox: the kernel
ends a process namespace as a whole.
"""

import os
import shutil
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

import hpml
from hpml.problem import UserError
from hpml.ranks import warm

# What ranks import of this package. Nothing in it knows an expected value.
SEEN = ("__init__.py", "link.py", "problem.py", "ranks", "wire.py")
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
LOOK_EVERY = 0.05  # seconds between two looks at what a submission uses

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """What one submission may use at a time, and, of processor time, in all."""

    memory: int = 8 * 1024 * MIB  # bytes, resident, of all its processes added up
    processes: int = 400  # and threads
    processor: float = 600.0  # seconds, of all its processes together
    files: int = 1024  # open ones, in each process
    disk: int = 256 * MIB  # bytes in /tmp, and as many in /dev/shm


class Exceeded(Exception):
    """The submission went over a limit, and was ended. The message says over which."""


@dataclass
class Sandbox:
    """A sandbox that is running. `exceeded` says which limit ended it, empty while none did."""

    server: warm.WarmServer
    layers: tuple[str, ...]
    exceeded: str = ""


def missing() -> str | None:
    """Why there can be no sandbox on this machine, with the remedy; None where it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed: apt install bubblewrap"
    return None


@contextmanager
def sandbox(limits: Limits = Limits()) -> Iterator[Sandbox]:
    """A sandbox whose warm server this thread's launches take their ranks from.

    Raises UserError where this machine cannot make one.
    """
    if why := missing():
        raise UserError(f"no sandbox: {why}")
    inside = warm.Inside(_command(limits), _environment())
    server = warm.WarmServer(inside)
    running = Sandbox(server, ("bubblewrap", "resource limits", "watch"))
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(running, limits, over), daemon=True)
    watch.start()
    try:
        server.wait_until_ready()
        with warm.using(server):
            yield running
    finally:
        over.set()
        server.kill()
        watch.join(timeout=5)


def _command(limits: Limits) -> list[str]:
    """bwrap and its options; what follows is run inside."""
    words = [
        *("bwrap", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
        *("--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--cap-drop", "ALL"),
        *("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"),
    ]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.exists():
            words += ["--ro-bind", str(path), str(path)]
    for setting in SETTINGS:
        words += ["--ro-bind-try", setting, setting]
    for folder in ("/tmp", "/dev/shm"):
        words += ["--size", str(limits.disk), "--tmpfs", folder]
    for prefix in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if not Path(prefix).is_relative_to("/usr"):
            words += ["--ro-bind", prefix, prefix]
    package = Path(hpml.__file__).parent
    if package.is_relative_to(sysconfig.get_paths()["purelib"]):
        words += ["--tmpfs", str(package)]  # hide what was just mounted with the interpreter
    for name in SEEN:
        words += ["--ro-bind", str(package / name), str(package / name)]
    words += ["--chdir", "/tmp", "--"]
    return [*words, *_with_limits(limits)]


def _with_limits(limits: Limits) -> list[str]:
    """What sets the kernel's limits for each process inside, before anything else runs there."""
    values = {
        "nofile": limits.files,
        "fsize": limits.disk,
        "core": 0,
        "cpu": int(limits.processor) + 1,
        "nproc": limits.processes,  # not for root, whom the kernel lets have as many as he likes
    }
    return ["prlimit", *(f"--{name}={value}:{value}" for name, value in values.items())]


def _environment() -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "PYTHONPATH": str(Path(hpml.__file__).parents[1]),
    }


def _watch(running: Sandbox, limits: Limits, over: threading.Event) -> None:
    """End the sandbox when its processes together use more than they may."""
    spent: dict[int, float] = {}
    while not over.wait(LOOK_EVERY):
        memory = processes = 0
        for process in _family(running.server.pid):
            try:
                with process.oneshot():
                    memory += process.memory_info().rss
                    processes += process.num_threads()
                    times = process.cpu_times()
                    spent[process.pid] = times.user + times.system
            except (psutil.Error, OSError):
                continue
        if memory > limits.memory:
            running.exceeded = f"more than {limits.memory // MIB} MiB of memory"
        elif processes > limits.processes:
            running.exceeded = f"more than {limits.processes} processes and threads"
        elif sum(spent.values()) > limits.processor:
            running.exceeded = f"more than {limits.processor:.0f} s of processor time"
        if running.exceeded:
            running.server.kill()
            return


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
