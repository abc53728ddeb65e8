"""The two directions of the socket between the parent and one rank.

Down, each behind its length: one job, a pickle made by the parent (the trusted side); then the
replies to what the rank asked, or, to a rank that stays, what it is to run next. Up: a stream of
msgpack events, each a list whose first item names it.
"""

import socket
import struct
import threading
from typing import Any, Protocol

import msgpack

MAX_EVENT = 2**26  # bytes; a returned value is one event
MAX_VALUE = MAX_EVENT - 2**12  # bytes of it; the rest is for the event's frame
TOO_LARGE = f"more than {MAX_EVENT // 2**20} MiB at once"
MAX_TOTAL = MAX_EVENT + 2**26  # bytes of all events of one rank
MAX_ITEMS = 256  # of a list in an event: the ranks of a group, the dimensions of a shape
MAX_LISTS = 3  # in an event: itself, a group, a shape

_LENGTH = struct.Struct("!Q")


def frame(job: bytes) -> bytes:
    """`job` behind its length, as sent to the rank."""
    return _LENGTH.pack(len(job)) + job


def receive_job(sock: socket.socket) -> bytes:
    """In the rank: block until the whole job is here. Raises EOFError when the parent is gone."""
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size))
    return _exactly(sock, length)


def frame_reply(number: int, refused: bool, reply: bytes) -> bytes:
    """The reply to request `number`, as sent to the rank: a value in the ranks' encoding."""
    return frame(msgpack.packb([number, refused, reply]))


def receive_reply(sock: socket.socket) -> tuple[int, bool, bytes]:
    """In the rank: block until a whole reply is here; what `frame_reply` was given."""
    return tuple(msgpack.unpackb(receive_job(sock), max_bin_len=MAX_EVENT))


def _exactly(sock: socket.socket, count: int) -> bytes:
    buffer = bytearray(count)
    view, have = memoryview(buffer), 0
    while have < count:
        got = sock.recv_into(view[have:])
        if not got:
            raise EOFError("the parent closed the channel")
        have += got
    return bytes(buffer)


class Lock(Protocol):
    """What is used of threading.Lock."""

    def acquire(self, blocking: bool = True) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *_: object) -> None: ...


class EventSender:
    """In the rank: sends events, whole, from wherever `lock` keeps others out: by default from any
    thread."""

    def __init__(self, sock: socket.socket, lock: Lock | None = None) -> None:
        self._sock = sock
        self._lock = lock or threading.Lock()

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
    `broken`: from some byte on, for ever.

    `limit` bounds the bytes of one event, `total` those of all of them. Memory per
    byte is bounded as well: an empty list is one byte here, and sixty in memory.
    """

    def __init__(self, limit: int = MAX_EVENT, total: int = MAX_TOTAL) -> None:
        self._unpacker = msgpack.Unpacker(
            raw=False,
            max_buffer_size=limit,
            max_str_len=2**17,
            max_bin_len=limit,
            max_array_len=MAX_ITEMS,
            max_map_len=0,
            max_ext_len=0,
            list_hook=self._count,
        )
        self._lists = 0  # in the event that is being read
        self._left = total
        self.broken = False

    def refill(self, total: int = MAX_TOTAL) -> None:
        """From now on so many bytes may come: for the next run of ranks that stay."""
        self._left = total

    def feed(self, data: bytes) -> list[list[Any]]:
        """The events that are complete now. Raises ValueError for anything that is not one, and
        from then on for everything."""
        self._left -= len(data)
        if self._left < 0:
            self.broken = True
            raise ValueError(f"more than {MAX_TOTAL // 2**20} MiB in all")
        events = []
        try:
            self._unpacker.feed(data)
            for event in self._unpacker:
                self._lists = 0
                if type(event) is not list or not event or type(event[0]) is not str:
                    raise ValueError("not a list that begins with its name")
                events.append(event)
        except msgpack.BufferFull:
            self._left, self.broken = 0, True
            raise ValueError(TOO_LARGE) from None
        except Exception as error:  # msgpack raises many kinds, all of them mean the same here
            self._left, self.broken = 0, True
            raise ValueError(f"malformed event: {error}") from None
        return events

    def _count(self, items: list[Any]) -> list[Any]:
        self._lists += 1
        if self._lists > MAX_LISTS:
            raise ValueError("lists within lists")
        return items
