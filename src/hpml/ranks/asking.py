"""In a rank: what the engine's parent process serves, asked for one request at a time.

What is served and logged outside the rank can be believed: see `hpml.ranks.serving`.
"""

import fcntl
import os
import socket
import tempfile
import threading
from typing import Any

from hpml.ranks import encoding
from hpml.ranks.channel import EventSender, receive_reply


class ForkLock:
    """A lock between threads, and between a rank and the processes that it forks.

    The kernel opens it when the process that holds it ends.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  open until the rank ends
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._threads = threading.Lock()  # another thread may have held it during the fork

    def acquire(self, blocking: bool = True) -> bool:
        if not self._threads.acquire(blocking):
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        except BaseException as error:
            self._threads.release()
            if isinstance(error, OSError) and not blocking:
                return False
            raise
        return True

    def release(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Asker:
    """Asks over the rank's channel. One request is open at a time, from whichever thread or forked
    process it comes."""

    def __init__(self, sock: socket.socket, send: EventSender) -> None:
        self._sock, self._send = sock, send
        self._lock = ForkLock()

    def __call__(self, request: Any) -> Any:
        data = encoding.encode(request)
        with self._lock:
            # Not counted: a DataLoader's worker that was killed may have left a reply behind.
            number = int.from_bytes(os.urandom(7), "big")
            self._send(["ask", number, data])
            answered = -1
            while answered != number:
                answered, refused, reply = receive_reply(self._sock)
        if refused:
            raise ValueError(encoding.decode(reply))
        return encoding.decode(reply)


_asker: Asker | None = None


def install(sock: socket.socket, send: EventSender) -> None:
    """From now on, `ask` of this process asks over `sock`. Called once, in a new rank."""
    global _asker
    _asker = Asker(sock, send)


def ask(request: Any) -> Any:
    """The reply of the launch's server to `request`; blocks until it is there.

    Request and reply are values of the ranks' encoding. The server runs in the parent, which logs
    each request with the time on its own clock. May be called from threads, and from processes that
    the rank has forked, such as a DataLoader's workers.

    Raises ValueError where the server refuses the request, RuntimeError where none was launched.
    """
    if _asker is None:
        raise RuntimeError("there is no server to ask: launch(..., serve=...)")
    return _asker(request)
