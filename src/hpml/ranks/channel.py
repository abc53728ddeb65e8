"""The two directions of the socket between the parent and one rank.

Down: one job, a pickle made by the parent (the trusted side), behind its length. Up: a stream of
msgpack events, each a list whose first item names it.
"""

import socket
import struct
import threading
from typing import Any

import msgpack

_LENGTH = struct.Struct("!Q")


def frame(job: bytes) -> bytes:
    """`job` as it goes down the socket."""
    return _LENGTH.pack(len(job)) + job


def receive_job(sock: socket.socket) -> bytes:
    """In the rank: block until the whole job is here. Raises EOFError when the parent is gone."""
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size))
    return _exactly(sock, length)


def _exactly(sock: socket.socket, count: int) -> bytes:
    buffer = bytearray(count)
    view, have = memoryview(buffer), 0
    while have < count:
        got = sock.recv_into(view[have:])
        if not got:
            raise EOFError("the parent closed the channel")
        have += got
    return bytes(buffer)


class EventSender:
    """In the rank: sends events, whole, from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def __call__(self, event: list[Any]) -> None:
        data = msgpack.packb(event, use_bin_type=True)
        with self._lock:
            self._sock.sendall(data)

    def offer(self, event: list[Any]) -> None:
        """Send, unless a send is under way: for a signal handler, which may have interrupted it."""
        if self._lock.acquire(blocking=False):
            try:
                self._sock.sendall(msgpack.packb(event, use_bin_type=True))
            finally:
                self._lock.release()


class EventReader:
    """In the parent: turns whatever bytes arrive into well-formed events, and refuses the rest.

    `limit` bounds the bytes of one event, `total` those of all of them.
    """

    def __init__(self, limit: int = 2**30, total: int = 2**31) -> None:
        self._unpacker = msgpack.Unpacker(raw=False, max_buffer_size=limit, strict_map_key=True)
        self._left = total

    def feed(self, data: bytes) -> list[list[Any]]:
        """The events that are complete now. Raises ValueError for anything that is not one."""
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("more events than a launch may send")
        try:
            self._unpacker.feed(data)
            events = list(self._unpacker)
        except Exception as error:
            raise ValueError(f"malformed event: {error}") from None
        for event in events:
            if type(event) is not list or not event or type(event[0]) is not str:
                raise ValueError("malformed event")
        return events
