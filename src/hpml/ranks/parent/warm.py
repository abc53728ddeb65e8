"""A handle on the warm servers, one per flavour: started once, again when one died."""

import atexit
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from hpml.ranks.flavour import Flavour
from hpml.ranks.processes import interpreter
from hpml.ranks.server.server import SANDBOXED
from hpml.ranks.supervisor.rank_wall import KEPT

START_LIMIT = 120.0  # seconds; importing torch from a cold network file system can take a minute

# What is imported stays: to look for garbage among it takes 15 % of the time. `server.prepare`
# switches that on again.
NO_GARBAGE = "import gc; gc.disable(); "
_MAIN = NO_GARBAGE + "from hpml.ranks.server.server import main; main()"


class ServerDied(RuntimeError):
    """The warm server could not be started, or went away, or a launch's supervisor did.

    `began`: a rank had begun to run what was launched, which may have ended it.
    """

    def __init__(self, message: str, began: bool = False) -> None:
        super().__init__(message)
        self.began = began


@dataclass(frozen=True)
class SandboxSpec:
    """A sandbox for a server to run in: command prefix, environment, folder, program.

    `command` is followed by the server's own arguments, and passes on inherited descriptors.
    `environment` is the server's whole environment. `tmp` is a writable folder, by its name
    inside. `main` is the server's program, as Python.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    tmp: str = "/tmp"
    main: str = _MAIN


class Process(Protocol):
    """A child of this process, by what is used of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> object: ...

    def kill(self) -> None: ...


class WarmServer:
    """A running `hpml.ranks.server.server`, in a sandbox if one is given. See `server()`.

    It has imported what ranks of `flavour` use. It can fork ranks of other flavours too; they
    import the rest themselves.
    """

    def __init__(self, inside: SandboxSpec | None = None, flavour: Flavour = "torch") -> None:
        self.flavour = flavour
        ours, theirs = socket.socketpair()
        self._inside = inside
        own = {"PYTHONUNBUFFERED": "1", "GLOO_SOCKET_IFNAME": loopback()}
        environment = {**(os.environ if inside is None else inside.environment), **own}
        # A session of its own: Ctrl-C in the terminal or the kernel is for us, not for the server.
        self._process: Process = subprocess.Popen(
            [
                *(inside.command if inside else ()),
                interpreter(),
                "-c",
                inside.main if inside else _MAIN,
                str(theirs.fileno()),
                flavour,
                *([SANDBOXED] if inside else ()),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            # A sandbox's output could be anything, and could redraw the terminal.
            stdout=None if inside is None else subprocess.DEVNULL,
            stderr=None if inside is None else subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        self._control = ours
        self._lock = threading.Lock()
        self._ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    spread = False  # its ranks are all on this machine

    @property
    def sandboxed(self) -> bool:
        return self._inside is not None

    @property
    def tmp(self) -> str:
        """Where launches may keep files, by its name inside the sandbox."""
        return tempfile.gettempdir() if self._inside is None else self._inside.tmp

    def folder(self, path: str | os.PathLike[str]) -> str:
        """The name for the server of a folder to keep: in a sandbox, below its `tmp`."""
        path = os.fspath(path)
        if self._inside is None:
            return path
        return os.path.join(self.tmp, KEPT, os.path.basename(path))

    def pids_here(self, pids: Sequence[int]) -> list[int]:
        """This process's pids for processes below the server, given the server's pids.

        They differ where the server has its own PID namespace. A process that is gone is 0.
        """
        if self._inside is None:
            return list(pids)
        level, here = self._level, {}
        for process in _descendants(self.pid):
            found = numbers(process.pid)
            if len(found) > level:
                here[found[level]] = process.pid
        return [here.get(pid, 0) for pid in pids]

    @property
    def _level(self) -> int:
        """How many PID namespaces are around the server's own. Ranks may have theirs inside it."""
        return len(numbers(self.pid))  # of bubblewrap, which is outside

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Block until all is imported there. Raises ServerDied."""
        with self._lock:
            if self._ready:
                return
            deadline = time.monotonic() + START_LIMIT
            while time.monotonic() < deadline:
                if select.select([self._control], [], [], 0.1)[0]:
                    if self._control.recv(16) != b"ready\n":
                        break
                    self._ready = True
                    return
                if not self.alive():
                    break
            raise ServerDied(
                f"the warm server did not start (exit code {self._process.poll()}): "
                "its message is above; ./hpml doctor says what this machine lacks"
            )

    def fork_supervisor(self, control: socket.socket, fds: list[int]) -> None:
        """Have the server fork a supervisor that takes over `control` and the ranks' `fds`."""
        self.wait_until_ready()
        with self._lock:
            try:
                socket.send_fds(self._control, [b"f"], [control.fileno(), *fds])
            except OSError as error:
                raise ServerDied(f"the warm server went away: {error}") from None

    def end_all(self) -> None:
        """End what a launch's supervisor failed to end: in a sandbox, all."""
        if self._inside is not None:
            self.kill()

    def kill(self) -> None:
        """End the server at once. In a sandbox that ends everything in it, and is waited for."""
        family = _descendants(self.pid) if self._inside is not None else []
        self._process.kill()
        self._process.wait(timeout=10)
        _wait_until_dead(family, 10.0)
        self._control.close()

    def stop(self) -> None:
        """End the server, and with it whatever it still has running."""
        self._control.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=10)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _wait_until_dead(processes: list[psutil.Process], limit: float) -> None:
    """Wait up to `limit` seconds until they have ended; a zombie counts as ended.

    An orphan stays a zombie where its new parent never reaps it, as in many containers.
    """
    deadline = time.monotonic() + limit
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.005)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def numbers(pid: int) -> list[int]:
    """The process's pids in all PID namespaces that it is in, from here inwards."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return next(([int(n) for n in li.split()[1:]] for li in lines if li.startswith("NSpid:")), [])


def loopback() -> str:
    """The interface that ranks on one machine talk over; by name Gloo need not resolve a host."""
    names = {name for _, name in socket.if_nameindex()}
    return os.environ.get("GLOO_SOCKET_IFNAME") or next(n for n in ("lo", "lo0") if n in names)


_running: dict[Flavour, tuple[int, WarmServer]] = {}  # each with the process that started it
_running_lock = threading.Lock()


_chosen: ContextVar[WarmServer | None] = ContextVar("warm server", default=None)


@contextmanager
def using(chosen: WarmServer) -> Iterator[WarmServer]:
    """Launches of this thread, or task, take their ranks from `chosen` for a while."""
    token = _chosen.set(chosen)
    try:
        yield chosen
    finally:
        _chosen.reset(token)


def server(flavour: Flavour = "torch") -> WarmServer:
    """This process's warm server for `flavour`, started now if there is none or it died.

    Does not wait for it. Within `using`, the one that was chosen there, dead or alive, whatever it
    has imported.
    """
    if (chosen := _chosen.get()) is not None:
        return chosen
    with _running_lock:
        started_by, warm = _running.get(flavour, (0, None))
        if warm is not None and started_by == os.getpid() and warm.alive():
            return warm
        warm = WarmServer(flavour=flavour)
        if not _running:
            atexit.register(stop)
        _running[flavour] = (os.getpid(), warm)
        return warm


def adopt(warm: WarmServer) -> None:
    """Have launches of this process take ranks from a running server, which `stop` ends."""
    with _running_lock:
        if not _running:
            atexit.register(stop)
        _running[warm.flavour] = (os.getpid(), warm)


def stop() -> None:
    """End this process's warm servers, if any."""
    with _running_lock:
        for started_by, warm in _running.values():
            if started_by == os.getpid() and warm.alive():
                warm.stop()
        _running.clear()
