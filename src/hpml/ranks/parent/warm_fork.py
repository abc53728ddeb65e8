"""A warm server that is a fork of this process: nothing has to be imported again.

For a process that `hpml.ranks.server.server.prepare` has prepared, and that has one thread.
"""

import gc
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import NoReturn

from hpml.ranks.parent import warm
from hpml.ranks.server import server


class _Fork:
    """A fork of this process, as `subprocess.Popen` has it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a warm server", timeout)
            time.sleep(0.002)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class _ForkedServer(warm.WarmServer):
    """The handle on a warm server that was forked from here."""

    def __init__(self) -> None:
        self.flavour = "torch"
        self._inside = None
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            _serve(theirs)
        theirs.close()
        self._process = _Fork(pid)
        self._control = ours
        self._lock = threading.Lock()
        self._ready = False


def start() -> warm.WarmServer:
    """Fork a warm server, from which launches of flavour "torch" in this process take ranks."""
    forked = _ForkedServer()
    warm.adopt(forked)
    return forked


def _serve(control: socket.socket) -> NoReturn:
    """In the fork: be a warm server, as one that was started, until the parent is gone."""
    code = 70
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        _close_all_but(control.fileno())
        # As of a Python whose environment has this: what a rank prints is written at once
        os.environ["PYTHONUNBUFFERED"] = "1"
        os.environ["GLOO_SOCKET_IFNAME"] = warm.loopback()
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(
                io.FileIO(number, "w", closefd=False),
                encoding="utf-8",
                errors="backslashreplace",
                write_through=True,
            )
            for number in (1, 2)
        )
        gc.freeze()  # what is there now is never collected: ranks share its pages
        server.serve(control)
        code = 0
    finally:
        os._exit(code)


def _close_all_but(kept: int) -> None:
    """Close what the parent has open: a rank is to inherit none of it."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            try:
                os.close(int(name))
            except OSError:  # the folder itself, closed meanwhile
                continue
