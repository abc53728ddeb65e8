"""What the parent serves, asked for one request at a time.

What is served and logged outside the rank can be believed: see `hpml.ranks.parent.serving`.
"""

import os
import socket
from typing import Any

from hpml.ranks import encoding
from hpml.ranks.channel import EventSender, receive_reply
from hpml.ranks.rank.fork_lock import ForkLock


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
