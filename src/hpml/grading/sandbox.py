"""A sandbox for one submission, around the warm server that its ranks are forked from.

    grader ── control socket ──► bwrap ► template ─ fork ─► warm server ► supervisor ► ranks
                                 │                          └ namespaces of its own, below those
                                 └ user, mount, pid, net, ipc and uts namespaces

A process inside sees the system and the interpreter, read-only, and the part of this package that
ranks use (`hpml.ranks`); no checks, solutions, submissions or home. It may write to a /tmp and a
/dev/shm of its own, of limited size, removed with the sandbox. The only networks are loopback and
the links that a launch makes itself. Every process started inside ends with the sandbox: the kernel
ends a process namespace as a whole.

The template has imported torch and nothing of a submission (see `hpml.ranks.server.template`).
Where the kernel allows no namespaces inside bubblewrap's, each submission gets a bubblewrap of its
own, with the same limits, and imports torch again.
"""

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import psutil

from hpml.doctor import Fact
from hpml.errors import UserError
from hpml.grading import bubblewrap, template
from hpml.machine import control_group
from hpml.network import available
from hpml.ranks import launch
from hpml.ranks.flavour import Flavour
from hpml.ranks.parent import warm
from hpml.ranks.processes import interpreter
from hpml.ranks.supervisor import seccomp
from hpml.ranks.supervisor.wall import NOBODY

PROGRAMS = {"bwrap": "bubblewrap", "prlimit": "util-linux"}  # and their Debian packages
LOOK_EVERY = 0.05  # seconds between two measurements of what a submission uses
LOOK_EVERY_IN_GROUP = 0.5  # where the kernel itself limits memory and processes
TRY_LIMIT = 20.0  # seconds for an empty sandbox to start and end

NAMESPACES = "bubblewrap: namespaces, no capabilities, read-only system, private /tmp"
LIMITS = "limits of each process: files, file size, processor time"
WATCH = "watch over memory, processes, processor time and wall time of all together"
GROUP = "control group: memory and processes"
REQUIRED = (NAMESPACES, LIMITS, WATCH)
APART = "each rank in namespaces of its own"
FILTER = "filter of system calls"
LINKS = "emulated links: calls are held against the kernel's count of bytes"

MIB = 2**20
TEMPLATE_DISK = 16 * MIB  # it writes nothing, but torch looks for a writable folder


@dataclass(frozen=True)
class Limits:
    """What one submission may use at any moment; times are totals of one answer."""

    memory: int = 6 * 1024 * MIB  # bytes, the sum over its processes
    processes: int = 600  # and threads
    processor: float = 900.0  # seconds, the sum over its processes
    wall: float = 900.0  # seconds
    files: int = 1024  # open ones, in each process
    disk: int = 256 * MIB  # bytes in /tmp, and as many in /dev/shm


def fact() -> Fact:
    """The line about grading in ./hpml doctor."""
    if why := missing():
        cost, remedy = "./hpml grade refuses to start", "apt install bubblewrap, user namespaces on"
        return Fact("sandbox of a grader", why, False, cost, remedy)
    there = layers()
    lacking = "" if GROUP in there else "; no control group, so memory is watched from outside"
    return Fact("sandbox of a grader", f"{len(there)} layers: {'; '.join(there)}{lacking}", True)


def shared_by(jobs: int) -> Limits:
    """Limits for `jobs` submissions at a time that leave this machine some memory."""
    share = int(0.7 * psutil.virtual_memory().total / jobs)
    return Limits(memory=min(Limits.memory, share))


@dataclass
class Sandbox:
    """A running sandbox. `exceeded` names the limit that ended it; empty if none did."""

    server: warm.WarmServer
    layers: tuple[str, ...]
    limits: Limits
    group: control_group.Group | None
    exceeded: str = ""
    spent: float = 0.0  # seconds of processor time, at the watch's last look
    _spent_before: float = field(default=0.0, init=False)  # by earlier answers
    _began: float = field(default=0.0, init=False)  # the current answer
    looking: threading.Lock = field(default_factory=threading.Lock, init=False)

    def begin_answer(self) -> bool:
        """Count time anew, for the answer that runs next; returns whether one still can."""
        with self.looking:
            self._spent_before, self._began = self.spent, time.monotonic()
            return self.alive and not self.exceeded

    def out_of_time(self) -> str:
        """The limit of time that the current answer exceeds, as in `exceeded`."""
        if self.spent - self._spent_before > self.limits.processor:
            return f"it used more than {self.limits.processor:.0f} s of processor time"
        if time.monotonic() - self._began > self.limits.wall:
            return f"it ran for more than {self.limits.wall:.0f} s"
        return ""

    def look_at_memory(self) -> None:
        """Set `exceeded` if the kernel killed processes at the memory limit."""
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
    """Why this machine cannot make a sandbox, with the remedy; None if it can."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: apt install {package}"
    command = [*_command(Limits(), None), interpreter(), "-c", "import hpml.network.link"]
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
        message = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
        return f"bubblewrap does not run here: {message[:200]}: are user namespaces switched off?"
    return None


@cache
def layers() -> tuple[str, ...]:
    """The layers of a sandbox on this machine; none if it cannot make one."""
    if missing() is not None:
        return ()
    group = control_group.make(64 * MIB, 10)
    if group is not None:
        group.remove()
    return _active(group, "torch")


def _active(group: control_group.Group | None, flavour: Flavour) -> tuple[str, ...]:
    """The layers of a sandbox with this control group, or none."""
    more = {
        GROUP: group is not None,
        APART: forks(flavour),
        FILTER: bool(seccomp.refused()),
        LINKS: _links() if forks(flavour) else available.refusal() is None,
    }
    return (*REQUIRED, *(layer for layer, there in more.items() if there))


@cache
def _links() -> bool:
    """Whether a sandbox that is forked from a template can emulate links."""
    limits = Limits()
    tried = _template("torch").enclosed(limits.disk, _of_each(limits), group=None)
    try:
        with warm.using(tried):
            return not launch(dict, 2, process_group=False, link="10gbit").no_link
    finally:
        tried.kill()


@contextmanager
def sandbox(limits: Limits = Limits(), flavour: Flavour = "torch") -> Iterator[Sandbox]:
    """A sandbox: `warm.using(box.server)` takes ranks from it, those of `flavour` without a wait.

    On exit, all its processes have ended. Raises UserError if this machine cannot make one, and
    `warm.ServerDied` if it does not start.
    """
    if why := missing():
        raise UserError(f"no sandbox: {why}")
    group = control_group.make(limits.memory, limits.processes)
    over = threading.Event()
    with contextlib.ExitStack() as stack:
        if group is not None:
            stack.callback(group.remove)
        server = _server(limits, flavour, group)
        stack.callback(server.kill)
        running = Sandbox(server, _active(group, flavour), limits, group)
        server.wait_until_ready()  # no submission enters before this
        running.begin_answer()
        watch = threading.Thread(target=_watch, args=(running, limits, over), daemon=True)
        watch.start()
        stack.callback(watch.join, timeout=5)
        stack.callback(over.set)
        yield running


def _server(limits: Limits, flavour: Flavour, group: control_group.Group | None) -> warm.WarmServer:
    """A warm server in its own sandbox: forked from a template, or else started anew."""
    if forks(flavour):
        return _template(flavour).enclosed(limits.disk, _of_each(limits), group)
    inside = warm.SandboxSpec(_command(limits, group), bubblewrap.environment())
    return warm.WarmServer(inside, flavour)


@cache
def forks(flavour: Flavour = "torch") -> bool:
    """Whether sandboxes can be forked from a template here, with ranks apart; tried with one rank.

    A kernel may allow bubblewrap to make namespaces, but not the processes inside it.
    """
    limits = Limits()
    try:
        tried = _template(flavour).enclosed(limits.disk, _of_each(limits), group=None)
    except (warm.ServerDied, OSError):
        return False
    try:
        with warm.using(tried):
            return launch(dict, 1, process_group=False).diagnosis is None  # it imports nothing
    except warm.ServerDied:
        return False
    finally:
        tried.kill()


def _template(flavour: Flavour) -> template.Template:
    inside = warm.SandboxSpec(_template_command(), bubblewrap.environment(), main=template.MAIN)
    return template.running(inside, flavour)


def _command(limits: Limits, group: control_group.Group | None) -> list[str]:
    """bwrap and its options, for one submission; append the command to run inside."""
    return [
        *_joining(group),
        *bubblewrap.words(NOBODY, "--cap-drop", limits.disk),
        *("prlimit", *(f"--{name}={value}:{value}" for name, value in _of_each(limits).items())),
    ]


def _template_command() -> list[str]:
    """bwrap and its options for a template.

    It has all capabilities in its own namespaces, to make further ones, and none on the machine.
    """
    return bubblewrap.words(0, "--cap-add", TEMPLATE_DISK)


def _joining(group: control_group.Group | None) -> list[str]:
    """The command prefix that joins the group, then runs the command after it."""
    if group is None:
        return []
    enter = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 1; shift; n=$((n-1)); done'
    entrances = group.entrances
    return ["/bin/sh", "-c", f'{enter}; exec "$@"', "sh", str(len(entrances)), *entrances]


def _of_each(limits: Limits) -> dict[str, int]:
    """The kernel's limits for each process inside, by their names in prlimit(1)."""
    return {
        "nofile": limits.files,
        "fsize": limits.disk,
        "core": 0,
        "cpu": int(limits.processor) + 1,
        "nproc": limits.processes,  # the kernel does not apply it to root
        # Those of one user share the kernel's number of them
        "sigpending": 256,  # waiting signals, and timers
        "msgqueue": 0,  # bytes
    }


def _watch(running: Sandbox, limits: Limits, over: threading.Event) -> None:
    """End the sandbox when its processes together exceed a limit."""
    spent: dict[int, float] = {}
    every = LOOK_EVERY if running.group is None else LOOK_EVERY_IN_GROUP
    while not over.wait(every):
        with running.looking:
            why = _exceeded(running, limits, spent)
            running.exceeded = why or running.exceeded
            if running.exceeded:
                running.server.kill()
                return


def _exceeded(running: Sandbox, limits: Limits, spent: dict[int, float]) -> str:
    """The limit that the sandbox exceeds; updates `spent`, processor seconds by process."""
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
    running.spent = sum(spent.values())
    full = memory > limits.memory and sum(map(_share_of_memory, family)) > limits.memory
    running.look_at_memory()
    if full:
        return running.too_much_memory
    if processes > limits.processes:
        return f"it started more than {limits.processes} processes and threads"
    return running.out_of_time()


def _own_memory(process: psutil.Process) -> int:
    """Bytes that the process holds, without code and files shared with others.

    Fast, but memory shared with the server is counted again for each rank forked from it.
    """
    info = process.memory_info()
    return info.rss - info.shared


def _share_of_memory(process: psutil.Process) -> int:
    """Bytes that the process holds, with its part of shared memory; takes milliseconds."""
    try:
        return process.memory_full_info().pss
    except psutil.AccessDenied:  # the server and its supervisors, for an ordinary user
        return _own_memory(process)
    except (psutil.Error, OSError):
        return 0


def _family(pid: int) -> list[psutil.Process]:
    """The server's process, or bubblewrap's around it, and all descendants."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []
