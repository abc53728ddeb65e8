"""For a rank that has a proxy: calls go out to it, and their ends come in.

Tensors travel through memory shared with the proxy (`hpml.ranks.rank.arena`).
"""

import builtins
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import msgpack
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

from hpml.ranks.rank import remote_calls
from hpml.ranks.rank.arena import Arena, Places, aligned

_IN_PLACE = {"allreduce", "allreduce_coalesced", "broadcast", "reduce"}
_SENT_ONLY = {"send"}  # nothing comes back
_FILLED_ONLY = {"recv", "recv_anysource"}  # nothing is put in

# A tensor that a call fills, where its elements arrive, and at which offset that is
Filled = tuple[torch.Tensor, torch.Tensor, int]

_LENGTH = struct.Struct("!I")


def frame(message: list[Any]) -> bytes:
    """In the proxy: the end of a call, as `Connection` reads it."""
    data = msgpack.packb(message)
    return _LENGTH.pack(len(data)) + data


class Connection:
    """The rank's side of the connection with its proxy. Methods may be called by any thread.

    Calls go out by `send`, among the rank's other events and in order with them; their ends come in
    over `ends`.
    """

    def __init__(
        self,
        send: Callable[[list[Any]], None],
        ends: socket.socket,
        arena: Arena,
        line: Callable[[], int | None],
    ) -> None:
        self._send, self._ends, self.arena, self._line = send, ends, arena, line
        self._places = Places(arena.size)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._works: dict[int, RemoteWork] = {}  # of calls that have not ended
        self._callbacks: ThreadPoolExecutor | None = None
        threading.Thread(target=self._read, name="proxy", daemon=True).start()

    def group(self, name: str, ranks: Sequence[int], default: bool, timeout: timedelta) -> int:
        """Have a group made, together with the proxies of `ranks`; returns its number."""
        seconds = timeout.total_seconds()
        work = self._issue("group", [str(name), list(ranks), default, seconds, self._line()], None)
        work.wait_silently()
        return work.number

    def call(self, group: int, method: str, args: Sequence[Any], kwargs: dict) -> "RemoteWork":
        """Make a call of a group. Raises NotSendable, or Full where there is no room for it."""
        tensors: list[Filled] = []
        sent_only, filled_only = _roles(method, args)
        total = sum(aligned(_nbytes(one)) for one in _flat([*args, *kwargs.values()]))
        room = (self._places.take(total), total) if total else None
        offset = room[0] if room else 0

        def place(tensor: torch.Tensor) -> remote_calls.Place:
            nonlocal offset
            here, offset = offset, offset + aligned(_nbytes(tensor))
            there = self.arena.tensor(tensor.dtype, tensor.shape, here)
            if id(tensor) not in filled_only:
                self.arena.copy(there, tensor.detach(), here)
            if id(tensor) not in sent_only:
                tensors.append((tensor, there, here))
            return str(tensor.dtype), tuple(tensor.shape), here

        try:
            packed = remote_calls.pack(args, kwargs, place)
        except BaseException:
            self._free(room)
            raise
        content = [group, method, self._line(), packed]
        return self._issue("collective", content, room, tensors)

    def _issue(
        self,
        kind: str,
        content: list[Any],
        room: tuple[int, int] | None,
        tensors: Sequence[Filled] = (),
    ) -> "RemoteWork":
        with self._lock:  # numbers arrive in order
            number = next(self._numbers)
            work = self._works[number] = RemoteWork(self, number, room, tensors)
            self._send([kind, number, *content])
        return work

    def notice(self, number: int, waits: bool) -> None:
        """The rank now waits for call `number`, or will know when it has ended."""
        self._send(["await" if waits else "notice", number])

    def _read(self) -> None:
        """Take in the ends of calls, for ever: a thread of its own."""
        file = self._ends.makefile("rb")
        while head := file.read(_LENGTH.size):
            number, *end = msgpack.unpackb(file.read(*_LENGTH.unpack(head)))
            work = self._works.pop(number)
            work.ended(*end)
            self._free(work.room)
            del work  # until the next call ends it would hold this one's tensors

    def _free(self, room: tuple[int, int] | None) -> None:
        if room is not None:
            self._places.give_back(*room)

    def later(self, callback: Callable[[], None]) -> None:
        """Run it on another thread: what an answer attaches to a future may itself wait for a call.
        As many threads as Gloo has for it."""
        with self._lock:
            self._callbacks = self._callbacks or ThreadPoolExecutor(2, "callbacks")
        self._callbacks.submit(callback)


class RemoteWork(Work):
    """A call under way in the proxy, or ended."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        room: tuple[int, int] | None,
        tensors: Sequence[Filled],
    ) -> None:
        super().__init__()
        self.number, self.room = number, room
        self._connection, self._tensors = connection, tensors
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._noticed = self._waited = False
        self._error: Exception | None = None
        self._source = -1
        self._future: torch.futures.Future | None = None

    def ended(self, source: int | None = None, kind: str = "", message: str = "") -> None:
        """The proxy's news: copy what arrived, then wake who waits.

        What cannot be copied (an expanded tensor has one element in several places) is the call's
        error: the thread that runs this goes on with other calls' ends.
        """
        if kind:
            self._error = _error(kind, message)
        else:
            try:
                for tensor, there, offset in self._tensors:
                    # `data`: as Gloo, unseen by autograd
                    self._connection.arena.copy(tensor.data, there, offset)
            except Exception as error:
                self._error = error
            self._source = -1 if source is None else source
        with self._lock:
            self._over.set()
            future = self._future
        if future is not None:
            self._connection.later(lambda: self._fulfil(future))

    def wait_silently(self, timeout: timedelta = timedelta(0)) -> None:
        limit = timeout.total_seconds()
        if not self._over.wait(limit if limit > 0 else None):
            raise RuntimeError(f"Timed out waiting {1000 * limit:.0f}ms for a call to complete")
        if self._error is not None:
            raise self._error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if not self._waited:
            self._waited = self._noticed = True
            self._connection.notice(self.number, waits=True)
        self.wait_silently(timeout)
        return True

    def _notice(self) -> None:
        if not self._noticed:
            self._noticed = True
            self._connection.notice(self.number, waits=False)

    def get_future(self) -> torch.futures.Future:
        if self._future is None:
            self._notice()
            with self._lock:
                self._future, over = torch.futures.Future(), self._over.is_set()
            if over:
                self._fulfil(self._future)
        return self._future

    def _fulfil(self, future: torch.futures.Future) -> None:
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(self.result())

    def is_completed(self) -> bool:
        over = self._over.is_set()
        if over:
            self._notice()
        return over

    def is_success(self) -> bool:
        return self._over.is_set() and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return [tensor for tensor, *_ in self._tensors]

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank


def _roles(method: str, args: Sequence[Any]) -> tuple[set[int], set[int]]:
    """Which tensors are only put in, and which are only filled, by `id`; the others are both."""
    if method in _SENT_ONLY:
        return {id(one) for one in _flat(args)}, set()
    if method in _FILLED_ONLY:
        return set(), {id(one) for one in _flat(args)}
    if method in _IN_PLACE or len(args) < 2:
        return set(), set()
    filled, put_in = ({id(one) for one in _flat(part)} for part in args[:2])
    return put_in - filled, filled - put_in


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _flat(item)]
    return []


def _nbytes(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise remote_calls.NotSendable(
            f"a {tensor.layout} tensor on {tensor.device}: give a dense one on the CPU"
        )
    return tensor.numel() * tensor.element_size()


def _error(kind: str, message: str) -> Exception:
    found = getattr(builtins, kind, None) or getattr(dist, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found(message)
    return RuntimeError(message)
