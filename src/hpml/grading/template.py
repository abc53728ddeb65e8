"""Templates: a submission's sandbox is forked from one in milliseconds.

A template is a bubblewrap sandbox that no submission ever enters. Its one process has imported what
ranks use (see `hpml.ranks.server.template`). There is one for each flavour, started on first use.
It ends with the process that started it.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from hpml.machine.control_group import Group
from hpml.ranks.flavour import Flavour
from hpml.ranks.parent import warm

MAIN = warm.NO_GARBAGE + "from hpml.ranks.server.template import main; main()"
ENCLOSE_LIMIT = 30.0  # seconds for the template to fork; it takes milliseconds


class _Forked:
    """A process that another one forked, with the methods of subprocess.Popen in use.

    Several threads may end it at once: none uses the descriptor that another has closed, whose
    number may belong to another process by then.
    """

    def __init__(self, pidfd: int) -> None:
        self._pidfd = pidfd
        self._lock = threading.Lock()
        lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
        self.pid = next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))

    def poll(self) -> int | None:
        """None while it runs; its exit status is not known here."""
        with self._lock:
            if self._pidfd < 0 or select.select([self._pidfd], [], [], 0)[0]:
                return -1
        return None

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def wait(self, timeout: float) -> None:
        """Wait until the process is gone. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while self._send(0):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a warm server", timeout)
            time.sleep(0.001)
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1

    def _send(self, number: int) -> bool:
        """Send a signal; returns whether the process was there to receive it."""
        with self._lock:
            if self._pidfd < 0:
                return False
            try:
                signal.pidfd_send_signal(self._pidfd, number)
            except ProcessLookupError:
                return False
            return True


class _EnclosedServer(warm.WarmServer):
    """A warm server that was forked from a template."""

    def __init__(
        self,
        process: _Forked,
        control: socket.socket,
        inside: warm.SandboxSpec | None,
        flavour: Flavour,
    ) -> None:
        self.flavour = flavour
        self._inside = inside
        self._process = process
        self._control = control
        self._lock = threading.Lock()
        self._ready = False

    @property
    def _level(self) -> int:
        return len(warm.numbers(self.pid)) - 1


class Template(warm.WarmServer):
    """A running template."""

    def enclosed(
        self, disk: int, limits: Mapping[str, int], group: Group | None
    ) -> warm.WarmServer:
        """A warm server in its own namespaces, put into `group` before it leaves the template's.

        `disk` and `limits` as in `hpml.ranks.supervisor.wall.close`. Raises warm.ServerDied if the
        template has ended, and OSError if the server cannot join the group.
        """
        self.wait_until_ready()
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            request = json.dumps({"disk": disk, "limits": dict(limits)}).encode()
            try:
                socket.send_fds(self._control, [request], [theirs.fileno()])
            except OSError as error:
                raise warm.ServerDied(f"the template went away: {error}") from None
        try:
            with contextlib.closing(_forked(ours)) as child:
                if group is not None:
                    try:
                        group.enter(child.pid)
                    except OSError:
                        child.kill()
                        raise
                ours.sendall(b"g")
                first = _forked(ours)
            ours.sendall(b"g")
        except BaseException:
            ours.close()
            raise
        return _EnclosedServer(first, ours, self._inside, self.flavour)


def _forked(control: socket.socket) -> _Forked:
    """Receive a pidfd; returns its process."""
    if select.select([control], [], [], ENCLOSE_LIMIT)[0]:
        _, pidfds, _, _ = socket.recv_fds(control, 1, 1)
        if pidfds:
            return _Forked(pidfds[0])
    raise warm.ServerDied("the template did not fork a server")


_running: dict[Flavour, tuple[int, Template]] = {}  # each with the process that started it
_lock = threading.Lock()


def running(inside: warm.SandboxSpec, flavour: Flavour) -> Template:
    """This process's template for `flavour`, started now if there is none or it died.

    Raises warm.ServerDied if it does not start.
    """
    with _lock:
        started_by, template = _running.get(flavour, (0, None))
        if template is not None and started_by == os.getpid() and template.alive():
            return template
        template = Template(inside, flavour)
        try:
            template.wait_until_ready()
        except warm.ServerDied:
            template.kill()
            raise
        if not _running:
            atexit.register(stop)
        _running[flavour] = (os.getpid(), template)
        return template


def stop() -> None:
    """End this process's templates and what was forked from them."""
    with _lock:
        for started_by, template in _running.values():
            if started_by == os.getpid() and template.alive():
                template.kill()
        _running.clear()
