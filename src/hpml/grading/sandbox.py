"""A sandbox for one submission: a wall around the warm server that its ranks are forked from.

    grader ── control socket ──► bwrap ► template ─ fork ─► warm server ► supervisor ► ranks
                                 │                          └ namespaces of its own, below those
                                 └ user, mount, pid, net, ipc and uts namespaces

What runs inside sees the system and the interpreter, read-only, and of this package what ranks are
made of (`hpml.ranks`), but no checks, no solutions, no submissions, no home. It may write to a /tmp
and a /dev/shm of its own, of limited size, that go with it. There is no network but loopback, and
the links that a launch makes itself. Every process started inside ends with the sandbox: the kernel
ends a process namespace as a whole.

The template has imported torch and nothing of a submission (see `hpml.ranks.template`). Where the
kernel allows no namespaces inside bubblewrap's, each submission has a bubblewrap and an import of
its own, behind the same wall.
"""

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import psutil

from hpml.doctor import Fact
from hpml.errors import UserError
from hpml.grading import bubblewrap, cgroup, template
from hpml.ranks import warm
from hpml.ranks.flavour import Flavour
from hpml.ranks.wall import NOBODY

PROGRAMS = {"bwrap": "bubblewrap", "prlimit": "util-linux"}  # and Debian's packages of them
LOOK_EVERY = 0.05  # seconds between two looks at what a submission uses
LOOK_EVERY_IN_GROUP = 0.5  # where the kernel itself limits memory and processes
TRY_LIMIT = 20.0  # seconds for an empty sandbox to come and go

NAMESPACES = "bubblewrap: namespaces, no capabilities, read-only system, private /tmp"
LIMITS = "limits of each process: files, file size, processor time"
WATCH = "watch over memory, processes, processor time and wall time of all together"
GROUP = "control group: memory and processes"
REQUIRED = (NAMESPACES, LIMITS, WATCH)

MIB = 2**20
TEMPLATE_DISK = 16 * MIB  # of which it uses nothing, but torch looks for a folder to write to


@dataclass(frozen=True)
class Limits:
    """What one submission may use at a time, and, of time, in all."""

    memory: int = 6 * 1024 * MIB  # bytes, of all its processes added up
    processes: int = 600  # and threads
    processor: float = 900.0  # seconds, of all its processes together
    wall: float = 900.0  # seconds
    files: int = 1024  # open ones, in each process
    disk: int = 256 * MIB  # bytes in /tmp, and as many in /dev/shm


def fact() -> Fact:
    """What ./hpml doctor says of grading here."""
    if why := missing():
        cost, remedy = "./hpml grade refuses to start", "apt install bubblewrap, user namespaces on"
        return Fact("sandbox of a grader", why, False, cost, remedy)
    there = layers()
    lacking = "" if GROUP in there else "; no control group, so memory is watched from outside"
    return Fact("sandbox of a grader", f"{len(there)} layers: {'; '.join(there)}{lacking}", True)


def shared_by(jobs: int) -> Limits:
    """Limits for `jobs` submissions at a time, which then leave this machine some memory."""
    share = int(0.7 * psutil.virtual_memory().total / jobs)
    return Limits(memory=min(Limits.memory, share))


@dataclass
class Sandbox:
    """A sandbox that is running. `exceeded` says which limit ended it, empty while none did."""

    server: warm.WarmServer
    layers: tuple[str, ...]
    limits: Limits
    group: cgroup.Group | None
    exceeded: str = ""

    def look_at_memory(self) -> None:
        """Set `exceeded` where the kernel has ended processes for want of memory."""
        if self.group is not None and self.group.ran_out_of_memory():
            self.exceeded = self.exceeded or self.too_much_memory

    @property
    def too_much_memory(self) -> str:
        return f"it used more than {self.limits.memory // MIB} MiB of memory"

    @property
    def alive(self) -> bool:
        return self.server.alive()


@cache
def missing() -> str | None:
    """Why there can be no sandbox on this machine, with the remedy; None where it can."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: apt install {package}"
    command = [*_command(Limits(), None), sys.executable, "-c", "import hpml.network.link"]
    try:
        tried = subprocess.run(
            command,
            env=bubblewrap.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRY_LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run here: {error}"
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
        return f"bubblewrap does not run here: {said[:200]}: are user namespaces switched off?"
    return None


@cache
def layers() -> tuple[str, ...]:
    """The layers that a sandbox has on this machine; none where there can be no sandbox."""
    if missing() is not None:
        return ()
    group = cgroup.make(64 * MIB, 10)
    if group is None:
        return REQUIRED
    group.remove()
    return (*REQUIRED, GROUP)


@contextmanager
def sandbox(limits: Limits = Limits(), flavour: Flavour = "torch") -> Iterator[Sandbox]:
    """A sandbox, for `warm.using(box.server)` to take ranks from, those of `flavour` at once.

    When it is left, everything in it has ended. Raises UserError where this machine cannot make
    one, and `warm.ServerDied` where it does not come up.
    """
    if why := missing():
        raise UserError(f"no sandbox: {why}")
    group = cgroup.make(limits.memory, limits.processes)
    over = threading.Event()
    with contextlib.ExitStack() as stack:
        if group is not None:
            stack.callback(group.remove)
        server = _server(limits, flavour, group)
        stack.callback(server.kill)
        running = Sandbox(server, REQUIRED if group is None else (*REQUIRED, GROUP), limits, group)
        server.wait_until_ready()  # nothing of a submission is there before
        watch = threading.Thread(target=_watch, args=(running, limits, over), daemon=True)
        watch.start()
        stack.callback(watch.join, timeout=5)
        stack.callback(over.set)
        yield running


def _server(limits: Limits, flavour: Flavour, group: cgroup.Group | None) -> warm.WarmServer:
    """A warm server in a sandbox of its own: forked from a template, or else started anew."""
    if forks(flavour):
        return _template(flavour).enclosed(limits.disk, _of_each(limits), group)
    inside = warm.SandboxSpec(_command(limits, group), bubblewrap.environment())
    return warm.WarmServer(inside, flavour)


@cache
def forks(flavour: Flavour = "torch") -> bool:
    """Whether sandboxes are forked from a template here; tried with an empty one.

    A kernel or its settings may allow bubblewrap its namespaces, and what is inside none.
    """
    limits = Limits()
    try:
        tried = _template(flavour).enclosed(limits.disk, _of_each(limits), group=None)
    except (warm.ServerDied, OSError):
        return False
    try:
        tried.wait_until_ready()
        return True
    except warm.ServerDied:
        return False
    finally:
        tried.kill()


def _template(flavour: Flavour) -> template.Template:
    inside = warm.SandboxSpec(_template_command(), bubblewrap.environment(), main=template.MAIN)
    return template.running(inside, flavour)


def _command(limits: Limits, group: cgroup.Group | None) -> list[str]:
    """bwrap and its options, for one submission; what follows is run inside."""
    return [
        *_joining(group),
        *bubblewrap.words(NOBODY, "--cap-drop", limits.disk),
        *("prlimit", *(f"--{name}={value}:{value}" for name, value in _of_each(limits).items())),
    ]


def _template_command() -> list[str]:
    """bwrap and its options for a template.

    It has all rights over its namespaces, none over the machine's, since it makes those of others.
    """
    return bubblewrap.words(0, "--cap-add", TEMPLATE_DISK)


def _joining(group: cgroup.Group | None) -> list[str]:
    """What puts a process into the group before it becomes what follows."""
    if group is None:
        return []
    enter = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 1; shift; n=$((n-1)); done'
    entrances = group.entrances
    return ["/bin/sh", "-c", f'{enter}; exec "$@"', "sh", str(len(entrances)), *entrances]


def _of_each(limits: Limits) -> dict[str, int]:
    """The kernel's limits for each process inside, by the names that prlimit(1) has for them."""
    return {
        "nofile": limits.files,
        "fsize": limits.disk,
        "core": 0,
        "cpu": int(limits.processor) + 1,
        "nproc": limits.processes,  # not for root, whom the kernel lets have as many as he likes
    }


def _watch(running: Sandbox, limits: Limits, over: threading.Event) -> None:
    """End the sandbox when its processes together use more than they may."""
    began = time.monotonic()
    spent: dict[int, float] = {}
    every = LOOK_EVERY if running.group is None else LOOK_EVERY_IN_GROUP
    while not over.wait(every):
        memory = processes = 0
        family = _family(running.server.pid)
        for process in family:
            try:
                with process.oneshot():
                    memory += _own_memory(process)
                    processes += process.num_threads()
                    times = process.cpu_times()
                    spent[process.pid] = times.user + times.system
            except (psutil.Error, OSError):
                continue
        full = memory > limits.memory and sum(map(_share_of_memory, family)) > limits.memory
        running.look_at_memory()
        if full:
            running.exceeded = running.too_much_memory
        elif processes > limits.processes:
            running.exceeded = f"it started more than {limits.processes} processes and threads"
        elif sum(spent.values()) > limits.processor:
            running.exceeded = f"it used more than {limits.processor:.0f} s of processor time"
        elif time.monotonic() - began > limits.wall:
            running.exceeded = f"it ran for more than {limits.wall:.0f} s"
        if running.exceeded:
            running.server.kill()
            return


def _own_memory(process: psutil.Process) -> int:
    """Bytes that the process holds, without the code and files that it shares with others.

    Quick, but what ranks have of the server that they were forked from counts for each of them.
    """
    info = process.memory_info()
    return info.rss - info.shared


def _share_of_memory(process: psutil.Process) -> int:
    """Bytes that the process holds, with its part of what it shares: takes milliseconds."""
    try:
        return process.memory_full_info().pss
    except psutil.AccessDenied:  # the server and its supervisors, for an ordinary user
        return _own_memory(process)
    except (psutil.Error, OSError):
        return 0


def _family(pid: int) -> list[psutil.Process]:
    """The server's process, or bubblewrap's around it, and all below."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []
