"""Where Horovod's ranks find each other: the key-value store that horovodrun would serve over HTTP.

Horovod's Gloo asks for `GET /SCOPE/KEY`, sets with `PUT`, and reports with `DELETE` that a rank
has met all the others of a scope; each request comes on a connection of its own, and four ranks
make some two hundred. horovodrun's own store answers 404 to an early GET, and Horovod then sleeps
before it asks again; here it is held until the key is set.
(Horovod 0.28.1: common/gloo/http_store.cc, runner/http/http_server.py.)
"""

import os
import selectors
import socket
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

HELD = 5.0  # seconds at most; the client asks again
LARGEST = 2**20  # bytes of a request

_OK, _MISSING, _BAD = b"200 OK", b"404 Not Found", b"400 Bad Request"


@dataclass(frozen=True)
class Request:
    """One request, whole. `value` is what a PUT sets."""

    method: str
    scope: str
    key: str
    value: bytes


def parse(data: bytes) -> Request | None:
    """The request in `data`; None while it is not whole. Raises ValueError for a malformed one."""
    head, end, body = data.partition(b"\r\n\r\n")
    if len(data) > LARGEST:
        raise ValueError("larger than anything that Horovod sends")
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    _, scope, key = path.split("/")
    length = 0
    for line in lines:
        name, _, text = line.partition(":")
        if name.lower() == "content-length":
            length = int(text)
    return Request(method, scope, key, body[:length]) if len(body) >= length else None


class Store:
    """Values by scope and key, each set by one rank, and the requests that wait for one."""

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self._values: dict[str, dict[str, bytes]] = defaultdict(dict)
        self._met: dict[str, set[str]] = defaultdict(set)
        self._waiting: deque[tuple[float, Request, socket.socket]] = deque()
        self._arrived: dict[socket.socket, bytes] = {}  # of requests that are not whole yet
        self._selector = selectors.DefaultSelector()
        for listener in listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def turn(self, patience: float = 1.0) -> None:
        """Serve what comes within `patience` seconds; return when some of it is done."""
        for key, _ in self._selector.select(patience):
            key.data(key.fileobj)
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] < now:
            _, _, connection = self._waiting.popleft()
            _reply(connection, _MISSING)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # it went away again
            return
        connection.setblocking(False)
        self._arrived[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ, self._read)

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(2**16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._arrived[connection] += data
        try:
            request = parse(self._arrived[connection])
        except ValueError:
            self._forget(connection)
            _reply(connection, _BAD)
            return
        if request is not None:
            self._forget(connection)
            self._serve(request, connection)
        elif not data:
            self._forget(connection)
            connection.close()

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._arrived[connection]

    def _serve(self, request: Request, connection: socket.socket) -> None:
        values = self._values[request.scope]
        if request.method == "GET" and request.key not in values:
            self._waiting.append((time.monotonic() + HELD, request, connection))
            return
        _reply(connection, _OK, values[request.key] if request.method == "GET" else b"")
        if request.method == "PUT":
            values[request.key] = request.value
            self._serve_who_waited()
        elif request.method == "DELETE":
            self._delete(request.scope, request.key)

    def _serve_who_waited(self) -> None:
        waited, self._waiting = self._waiting, deque()
        for deadline, request, connection in waited:
            if request.key in self._values[request.scope]:
                _reply(connection, _OK, self._values[request.scope][request.key])
            else:
                self._waiting.append((deadline, request, connection))

    def _delete(self, scope: str, rank: str) -> None:
        """`rank` is done with `scope`, which is emptied when all of its ranks are.

        So that Horovod can be shut down and initialised again.
        """
        self._met[scope].add(rank)
        # Each rank sets a key that is its number, and one with its host's name.
        if self._met[scope] >= {key for key in self._values[scope] if key.isdecimal()}:
            del self._values[scope], self._met[scope]


def _reply(connection: socket.socket, status: bytes, body: bytes = b"") -> None:
    head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body))
    with connection:
        try:
            connection.sendall(head + body)
        except OSError:  # it went away
            return


def listen(address: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A socket for the store, by default on the loopback interface of this process's network."""
    return socket.create_server((address, port), backlog=512)


def run(listeners: Sequence[socket.socket]) -> NoReturn:
    """Serve one store on all of `listeners`: the only work of this freshly forked process."""
    try:
        store = Store(listeners)
        while True:
            store.turn()
    finally:
        os._exit(70)
