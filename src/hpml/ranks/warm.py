"""The parent's handle on the warm server: started once per process, restarted when it died."""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

START_LIMIT = 120.0  # seconds; importing torch from a cold network file system can take a minute

_MAIN = "from hpml.ranks.server import main; main()"


class ServerDied(RuntimeError):
    """The warm server could not be started, or went away."""


class WarmServer:
    """A running `hpml.ranks.server`. Not started twice in one process; see `server()`."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "GLOO_SOCKET_IFNAME": _loopback()}
        # A session of its own: Ctrl-C in the terminal or the kernel is for us, not for the server.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
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

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Block until torch is imported there. Raises ServerDied."""
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

    def stop(self) -> None:
        """End the server, and with it whatever it still has running."""
        self._control.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=10)


def _loopback() -> str:
    """The interface that ranks on one machine talk over; by name Gloo need not resolve a host."""
    names = {name for _, name in socket.if_nameindex()}
    return os.environ.get("GLOO_SOCKET_IFNAME") or next(n for n in ("lo", "lo0") if n in names)


_current: tuple[int, WarmServer] | None = None
_current_lock = threading.Lock()


def server() -> WarmServer:
    """This process's warm server, started now if there is none or it died. Does not wait for it."""
    global _current
    with _current_lock:
        if _current is not None and _current[0] == os.getpid() and _current[1].alive():
            return _current[1]
        warm = WarmServer()
        if _current is None:
            atexit.register(stop)
        _current = (os.getpid(), warm)
        return warm


def stop() -> None:
    """End this process's warm server, if it has one."""
    global _current
    with _current_lock:
        if _current is not None and _current[0] == os.getpid():
            _current[1].stop()
        _current = None
