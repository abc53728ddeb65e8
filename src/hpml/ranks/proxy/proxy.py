"""Beside each rank, out of its reach: the process that makes its calls and records them.

The channel to the parent ends here, and so does the rank's network. What arrives from the rank is
of two kinds. Calls of process groups are checked, made with Gloo and recorded with this process's
clock: evidence. Everything else that a rank may report (its value, its exception, marks, samples of
where it stands, lines) is passed on as what it is, the rank's own word; a mark's time is believed
between the arrival of what the rank sent before and its own. An event of any other kind ends the
rank: it is an attempt to forge.

No byte from the rank is unpickled here, and nothing of the answer is imported.
"""

import os
import pickle
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from hpml.ranks import channel
from hpml.ranks.job import Job
from hpml.ranks.proxy.rank_proxy_link import RankProxyLink
from hpml.ranks.rank import dispatcher, proxy_connection, recorder, remote_calls, remote_group
from hpml.ranks.rank.arena import Arena
from hpml.ranks.rank.rank import delays_of

# Events of a rank that are its own word, and are passed on as such
PASSED_ON = {"begin", "mark", "sample", "ask", "value", "refused", "raised", "exit"} | {
    "grouping",
    "grouped",
}
MAX_GROUPS = 1000
MAX_CALLS = 20_000  # that have not ended, or whose ends the rank does not notice
IDLE = 1.0  # seconds without a call after which the thread that waits for their ends ends
MAX_NAME = 200  # characters of a group's name
# One tensor in parts: `alltoall_base`, under all names that it has in PyTorch
_SPLITTING = {
    name
    for name in remote_group.METHODS
    if "split_sizes" in (getattr(ProcessGroup, name).__doc__ or "")
}


class Forged(ValueError):
    """The rank sent what only another program than ours would send."""


class _Recorder(recorder.Recorder):
    """Records calls that are made elsewhere: the line is the rank's word."""

    _said = threading.local()

    def say(self, line: int | None) -> None:
        """The line of the calls that this thread makes from now on."""
        self._said.line = None if line is None else int(line)

    def line(self) -> int | None:
        return getattr(self._said, "line", None)


@dataclass
class _Call:
    """A call under way. The rank notices its end if it waits for it, or asked for a future."""

    index: int  # in the ledger
    ended: bool = False
    noticed: bool = False


class Proxy:
    """One rank's. `rank` is the connection on which its events come in; ends of calls go out on
    `ends`, events for the parent on `upwards`. `store` is where proxies meet."""

    def __init__(
        self,
        job: Job,
        rank: socket.socket,
        ends: socket.socket,
        upwards: socket.socket,
        arena: Arena,
        store: str,
    ) -> None:
        self._job, self._rank, self._ends, self._arena = job, rank, ends, arena
        self._send = channel.EventSender(upwards)
        first = 0 if job.process_group else 1
        self._recorder = _Recorder(self._send, job.filename, first, delays_of(job)[1])
        recorder.install(self._recorder)
        self._store = dist.FileStore(store, job.world_size)
        self._last = 0  # number that the rank gave a call
        self._latest = time.monotonic()  # when an event of the rank's arrived
        self._groups: dict[int, ProcessGroup] = {}
        self._made: dict[tuple[Any, ...], int] = {}  # how many groups of that name and these ranks
        self._calls: dict[int, _Call] = {}
        self._waiters: dict[Any, queue.SimpleQueue] = {}
        self._lock = threading.Lock()  # for the states of calls, and what is recorded of them
        self._ends_lock = threading.Lock()

    def run(self) -> None:
        """Serve until the rank is gone. What it sent until then has been passed on."""
        reader = channel.EventReader()
        try:
            while data := self._receive():
                for event in reader.feed(data):
                    self._take(*event)
        except Exception as error:  # of many kinds, all of which mean the same here
            self._send(["refused", f"its process sent what is not a report of a rank: {error}"])
            while self._receive():  # until the launch ends
                continue

    def _receive(self) -> bytes:
        with suppress(ConnectionResetError):
            return self._rank.recv(2**20)
        return b""

    def _take(self, kind: str, *content: Any) -> None:
        if kind == "collective":
            self._collective(*content)
        elif kind in ("await", "notice"):
            (number,) = content
            self._notice(number, waits=kind == "await")
        elif kind == "group":
            self._group(*content)
        elif kind == "begin":
            self._send(["begin", time.monotonic()])
        elif kind == "mark":
            name, said = content
            self._send(["mark", name, min(max(float(said), self._latest), time.monotonic())])
        elif kind in PASSED_ON:
            self._send([kind, *content])
        else:
            raise Forged(f"an event {kind[:40]!r}")
        self._latest = time.monotonic()

    def _number(self, number: int, line: int | None) -> None:
        if number != self._last + 1:
            raise Forged(f"call {number} after {self._last}")
        self._last = number
        self._recorder.say(line)

    def _group(
        self,
        number: int,
        name: str,
        ranks: list[int],
        default: bool,
        seconds: float,
        line: int | None,
    ) -> None:
        self._number(number, line)
        world = range(self._job.world_size)
        known = type(name) is str and len(name) <= MAX_NAME and len(self._made) < MAX_GROUPS
        if not known or len(set(ranks)) != len(ranks) or not set(ranks) <= set(world):
            raise Forged(f"a group {str(name)[:40]} of {str(ranks)[:40]}")
        # Index 0 of the ledger is that of the group that the engine makes before all others.
        if self._job.process_group and not self._made and not default:
            raise Forged(f"a group of {str(ranks)[:40]} before that of all ranks")
        if self._job.rank not in ranks:
            self._end_with(number, ValueError(f"this is rank {self._job.rank}, not in {ranks}"))
            return
        key = (name, *ranks)
        again = self._made[key] = self._made.get(key, 0) + 1
        store = dist.PrefixStore(f"{name} {ranks} {again}", self._store)
        timeout = timedelta(seconds=min(max(float(seconds), 0.001), 10**6))
        # It is a collective itself, in which a rank that never comes leaves the others waiting.
        index = None
        if default:
            place = name.partition(" ")[2]  # as hpml.ranks.rank.remote_group has it
            meets = place and [self._job.rank, len(ranks), place, "", place]
            index = self._recorder.enter("init_process_group", tuple(ranks), meets=meets or None)
            self._recorder.wait(index)

        def make() -> None:
            try:
                self._groups[number] = _gloo(store, self._job.rank, ranks, timeout)
            except Exception as error:
                self._end_with(number, error)
                return
            if index is not None:
                self._recorder.finish(index)
            self._tell([number])

        threading.Thread(target=make, daemon=True).start()

    def _collective(
        self, number: int, group: int, method: str, line: int | None, packed: bytes
    ) -> None:
        self._number(number, line)
        if group not in self._groups or method not in remote_group.METHODS:
            raise Forged(f"a call of {str(method)[:40]} in group {str(group)[:40]}")
        if len(self._calls) > MAX_CALLS:
            raise Forged(f"more than {MAX_CALLS} calls whose ends it never notices")
        args, kwargs = remote_calls.unpack(packed, self._arena.tensor)
        if method in _SPLITTING and not _fit(*args, **kwargs):
            self._end_with(number, RuntimeError("a split size is negative or beyond the tensor"))
            return
        make = partial(getattr(self._groups[group], method), *args, **kwargs)
        if method == "monitored_barrier":  # which has no handle, and waits itself
            threading.Thread(target=self._wait_in, args=[number, line, make], daemon=True).start()
            return
        try:
            work = make()
        except Exception as error:
            self._end_with(number, error)
            return
        self._calls[number] = _Call(dispatcher.index_of(work))
        # Of messages with one peer, and of collectives of one group, the first ends first.
        alone = method in ("send", "recv", "recv_anysource")
        key = (group, method, *map(str, args[1:])) if alone else (group,)
        with self._lock:
            waiter = self._waiters.get(key)
            if waiter is None:
                waiter = self._waiters[key] = queue.SimpleQueue()
                threading.Thread(target=self._await_ends, args=[key], daemon=True).start()
            waiter.put((number, work, method in ("recv", "recv_anysource")))

    def _wait_in(self, number: int, line: int | None, make: Callable[[], None]) -> None:
        self._recorder.say(line)
        try:
            make()
        except Exception as error:
            self._end_with(number, error)
        else:
            self._tell([number])

    def _await_ends(self, key: tuple[Any, ...]) -> None:
        """Report the ends of the calls of `key`, in order, until there are none for a while."""
        waiter = self._waiters[key]
        while True:
            try:
                number, work, receives = waiter.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if waiter.empty():
                        del self._waiters[key]
                        return
                continue
            self._await_end(number, work, receives)

    def _await_end(self, number: int, work: Work, receives: bool) -> None:
        """Report the end of one call, and who sent, where a message came in."""
        try:
            dispatcher.wait_unrecorded(work)
            source = work._source_rank() if receives else None
        except Exception as error:
            self._end_with(number, error)
            return
        with self._lock:
            call = self._calls[number]
            call.ended = True
            self._finish(number, call)
        self._tell([number, source])

    def _notice(self, number: int, waits: bool) -> None:
        """The rank waits for a call, or asked for a future of it."""
        if not 0 < number <= self._last:
            raise Forged(f"a wait for call {str(number)[:40]}")
        with self._lock:
            call = self._calls.get(number)
            if call is None:  # it failed, or is finished already
                return
            if waits:
                self._recorder.wait(call.index)
            call.noticed = True
            self._finish(number, call)

    def _finish(self, number: int, call: _Call) -> None:
        """Record the end of a call that has ended and whose end the rank notices."""
        if call.ended and call.noticed:
            self._recorder.finish(call.index)
            del self._calls[number]

    def _end_with(self, number: int, error: Exception) -> None:
        with self._lock:
            self._calls.pop(number, None)
        self._tell([number, None, type(error).__name__, str(error)[:4000]])

    def _tell(self, message: Sequence[Any]) -> None:
        with self._ends_lock, suppress(OSError):  # the rank may be gone
            self._ends.sendall(proxy_connection.frame(list(message)))


def _fit(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: list[int],
    input_split_sizes: list[int],
    *_: Any,
    **__: Any,
) -> bool:
    """Whether each part that these arguments of an all-to-all name is within its tensor.

    PyTorch compares the sum of split sizes alone, which negative ones can make right: Gloo would
    then read and write elsewhere. Raises Forged for sizes that could change after this.
    """
    for tensor, sizes in ((output, output_split_sizes), (input, input_split_sizes)):
        if type(sizes) is not list or any(type(n) is not int for n in sizes):
            raise Forged(f"split sizes {type(sizes).__name__}")
        if tensor.ndim and any(not 0 <= n <= tensor.shape[0] for n in sizes):
            return False
    return True


def _gloo(store: dist.Store, rank: int, ranks: Sequence[int], timeout: timedelta) -> ProcessGroup:
    """A group as init_process_group makes it, for this member of the global `ranks`."""
    place, kind = ranks.index(rank), ProcessGroup.BackendType.GLOO
    backend = dist.ProcessGroupGloo(store, place, len(ranks), timeout)
    backend.options.global_ranks_in_group = list(ranks)
    group = ProcessGroup(store, place, len(ranks))
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, backend)
    return group


def run(
    upwards: socket.socket, link: RankProxyLink, store: int | None, network: dict[str, str]
) -> None:
    """The work of a freshly forked proxy: pass the job on, then serve. Returns when the rank is
    gone."""
    rank, ends = link.for_proxy()
    data = channel.receive_job(upwards)
    rank.sendall(channel.frame(data))
    job: Job = pickle.loads(data)  # the parent's; what is in it of the answer stays bytes
    os.environ.update(job.environment | network)
    torch.set_num_threads(1)
    dispatcher.prepare()  # done already, in the server
    _pass_down(upwards, rank)
    path = job.store if store is None else f"/proc/self/fd/{store}"
    Proxy(job, rank, ends, upwards, link.arena, path).run()


def _pass_down(upwards: socket.socket, rank: socket.socket) -> None:
    """What the parent still sends is for the rank: a thread of its own."""

    def go() -> None:
        with suppress(OSError):
            while data := upwards.recv(2**20):
                rank.sendall(data)

    threading.Thread(target=go, daemon=True).start()
