"""Inside a rank: every collective is recorded before it begins and when it ends.

The record is made at the process group, below torch.distributed's Python functions, so that calls
made by C++ (DistributedDataParallel's reducer, FSDP, functional collectives) are in it as well: a
`ProcessGroup` written in Python that hands everything on to Gloo.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep  # by value: an answer may replace them in `time`
from typing import Any
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import ProcessGroup, Work

BACKEND = "recorded"

# ProcessGroup method → the name that torch.distributed gives the operation
OPERATIONS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather_coalesced",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "barrier": "barrier",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
}
# Where the tensors that a rank puts in are not the method's first argument
_INPUT_POSITION = {
    "allgather": 1,
    "_allgather_base": 1,
    "allgather_into_tensor_coalesced": 1,
    "allgather_coalesced": 1,
    "gather": 1,
    "scatter": 1,
    "reduce_scatter": 1,
    "_reduce_scatter_base": 1,
    "reduce_scatter_tensor_coalesced": 1,
    "alltoall": 1,
    "alltoall_base": 1,
}


@dataclass(frozen=True)
class Carried:
    """What a rank puts into a call: dtype and shape of the first tensor, bytes of all."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    nbytes: int = 0


class Recorder:
    """Writes the ledger of one rank: numbers its calls and hands each event to `send`.

    `send` takes one event, a list of plain values, and may be called from any thread.
    `watched` is the file name of the code whose lines a learner knows. Calls count from `first`: 0
    where the engine itself makes the default group, so that the learner's own begin at 1. Before
    each call the rank sleeps for the next of the `delays`, in seconds, as long as there are some.
    """

    def __init__(
        self,
        send: Callable[[list[Any]], None],
        watched: str,
        first: int = 1,
        delays: Iterator[float] | None = None,
    ) -> None:
        self._send = send
        self._watched = watched
        self._delays = iter(()) if delays is None else delays
        self._lock = threading.Lock()
        self._calls = first - 1
        self._sequences: dict[Any, int] = {}
        self._futures: dict[int, torch.futures.Future] = {}

    def line(self) -> int | None:
        """The innermost line of the watched file on the main thread's stack, if there is one."""
        frame = sys._getframe(1)
        if threading.current_thread() is not threading.main_thread():
            frame = sys._current_frames().get(threading.main_thread().ident)
        while frame is not None:
            if frame.f_code.co_filename == self._watched:
                return frame.f_lineno
            frame = frame.f_back
        return None

    def enter(
        self,
        operation: str,
        group: tuple[int, ...],
        tensors: list[torch.Tensor] | None = None,
        detail: str = "",
        peer: int | None = None,
        *,
        tensor: str = "",
        carried: Carried | None = None,
    ) -> int:
        """Record that a call begins; returns its index. `peer` keeps one sequence per sender,
        receiver and tag, since point-to-point calls are matched by those and not by the group; so
        does `tensor`, a name, for calls that are matched by that. `carried` is the data put in,
        where it is in no tensor of torch."""
        carried = carried or _carried(tensors or [])
        if (wait := next(self._delays, 0.0)) > 0:
            sleep(wait)
        with self._lock:
            self._calls += 1
            index = self._calls
            key = (group, operation, peer, detail) if peer is not None else (group, tensor)
            self._sequences[key] = sequence = self._sequences.get(key, 0) + 1
            event = [
                "call",
                index,
                operation,
                list(group),
                sequence,
                carried.dtype,
                list(carried.shape),
                carried.nbytes,
                detail,
                self.line(),
                monotonic(),
                tensor,
            ]
            self._send(event)
        return index

    def wait(self, index: int) -> None:
        """Record that the rank now waits for call `index`."""
        self._send(["wait", index, monotonic()])

    def finish(self, index: int) -> None:
        """Record that call `index` is complete."""
        self._futures.pop(index, None)
        self._send(["done", index, monotonic()])

    def expect(self, index: int, future: torch.futures.Future) -> None:
        """Call `index` will be finished by a callback of `future`, on another thread."""
        self._futures[index] = future
        future.add_done_callback(lambda _: self.finish(index))

    def settle(self, limit: float = 0.2) -> None:
        """Let the callbacks of completed futures run before the rank ends."""
        deadline = monotonic() + limit
        while monotonic() < deadline and any(f.done() for f in [*self._futures.values()]):
            sleep(0.001)

    def mark(self, name: str) -> None:
        self._send(["mark", str(name), monotonic()])


_recorder: Recorder | None = None


def mark(name: str) -> None:
    """Record this moment in the rank's evidence, as a `Mark` on the clock of its calls.

    Outside a launch it does nothing, so that a drive also runs by itself.
    """
    if _recorder is not None:
        _recorder.mark(name)


def settle() -> None:
    """Before a rank records its end: record first which calls are complete."""
    if _recorder is not None:
        _recorder.settle()


class _RecordedWork(Work):
    """A Work that records when it is waited for, and when it is complete."""

    def __init__(self, work: Work, recorder: Recorder, index: int) -> None:
        super().__init__()
        self._work, self._recorder, self._index = work, recorder, index
        self._future = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        self._recorder.wait(self._index)
        done = self._work.wait(timeout) if timeout else self._work.wait()
        self._recorder.finish(self._index)
        return done

    def get_future(self) -> torch.futures.Future:
        if self._future is None:
            self._future = self._work.get_future()
            self._recorder.expect(self._index, self._future)
        return self._future

    def is_completed(self) -> bool:
        done = self._work.is_completed()
        if done:
            self._recorder.finish(self._index)
        return done

    def is_success(self) -> bool:
        return self._work.is_success()

    def exception(self) -> Any:
        return self._work.exception()

    def result(self) -> list[torch.Tensor]:
        return self._work.result()

    def source_rank(self) -> int:
        return self._work._source_rank()

    _source_rank = source_rank


_kept: list[dist.Backend] = []


class RecordedGroup(ProcessGroup):
    """A process group that records, and hands on to Gloo."""

    def __init__(self, options: Any, _backend_options: Any) -> None:
        super().__init__(options.group_rank, options.group_size)
        self._gloo = dist.ProcessGroupGloo(
            options.store, options.group_rank, options.group_size, options.timeout
        )
        # Never destroyed: its destructor waits for Gloo's threads with the interpreter's lock held,
        # while one of them may need that lock for a `get_future` callback.
        _kept.append(self._gloo)
        self._ranks = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
        # FSDP, DTensor and P2P batches ask a group for its backend on a device
        self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, self._gloo)

    def getBackendName(self) -> str:
        return "gloo"


def _recorded(method: str) -> Callable[..., Work]:
    operation = OPERATIONS[method]
    position = _INPUT_POSITION.get(method, 0)

    def call(self: RecordedGroup, *args: Any, **kwargs: Any) -> Work:
        recorder = _recorder
        forward = getattr(self._gloo, method)
        if recorder is None:
            return forward(*args, **kwargs)
        tensors = _flat(args[position]) if len(args) > position and method != "barrier" else []
        detail, peer = _detail(self, method, args, kwargs)
        index = recorder.enter(operation, self._ranks, tensors, detail, peer)
        return _RecordedWork(forward(*args, **kwargs), recorder, index)

    call.__name__ = method
    return call


for _method in OPERATIONS:
    setattr(RecordedGroup, _method, _recorded(_method))


def _carried(tensors: list[torch.Tensor]) -> Carried:
    if not tensors:
        return Carried()
    return Carried(
        str(tensors[0].dtype).removeprefix("torch."),
        tuple(tensors[0].shape),
        sum(tensor.numel() * tensor.element_size() for tensor in tensors),
    )


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _flat(item)]
    return []


def _detail(group: RecordedGroup, method: str, args: tuple, kwargs: dict) -> tuple[str, int | None]:
    """What else must agree between ranks, in words, and the peer of a point-to-point call."""
    if method in ("send", "recv"):
        peer = group._ranks[args[1]]
        tag = args[2] if len(args) > 2 else kwargs.get("tag", 0)
        words = f"{'to' if method == 'send' else 'from'} {peer}"
        return (f"{words}, tag {tag}" if tag else words), peer
    if method == "recv_anysource":
        return "from anyone", -1
    options = args[-1] if args else None
    parts = []
    reduce_op = (
        options if isinstance(options, dist.ReduceOp) else getattr(options, "reduceOp", None)
    )
    if reduce_op is not None:
        parts.append(str(getattr(reduce_op, "op", reduce_op)).rsplit(".", 1)[-1].lower())
    root = getattr(options, "rootRank", None)
    if root is not None:
        parts.append(f"{'to' if method in ('reduce', 'gather') else 'from'} {group._ranks[root]}")
    return ", ".join(parts), None


def install(recorder: Recorder) -> None:
    """From now on, gloo groups of this process are recorded by `recorder`.

    Called once, in a freshly forked rank. What learners see of torch.distributed stays as it is:
    `get_backend()` says gloo, `init_process_group("gloo")` works from the environment.
    """
    global _recorder
    _recorder = recorder
    dist.Backend.register_backend(BACKEND, RecordedGroup, extended_api=True, devices=["cpu"])
    _wrap("init_process_group", _initialising)
    _wrap("new_group", _grouping)
    _wrap("get_backend", _naming)


def _wrap(name: str, wrapper: Callable[[Callable], Callable]) -> None:
    wrapped = wrapper(getattr(c10d, name))
    wrapped.__name__, wrapped.__doc__ = name, getattr(c10d, name).__doc__
    setattr(c10d, name, wrapped)
    setattr(dist, name, wrapped)


def _ours(backend: str | None) -> str | None:
    return BACKEND if str(backend).lower() in ("none", "gloo", "cpu:gloo") else backend


def _initialising(original: Callable) -> Callable:
    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        # It is a collective itself: a rank that never joins leaves the others waiting here.
        world_size = int(kwargs.get("world_size", -1))
        world = range(world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1)))
        index = _recorder.enter("init_process_group", tuple(world), peer=-2)
        _recorder.wait(index)
        _await_rank_zero(*args, **kwargs)
        original(_ours(backend), *args, **kwargs)
        _recorder.finish(index)

    return init_process_group


def _await_rank_zero(
    init_method: str | None = None, *_: Any, rank: int = -1, store: Any = None, **__: Any
) -> None:
    """Where ranks meet at a TCP address: let rank 0 listen there before this rank connects.

    A rank that finds nobody listening sleeps half a second and more before it tries again, and
    forked ranks get here within milliseconds of each other. Gives up in silence after a while:
    PyTorch then reports the error.
    """
    try:
        mine = rank if rank >= 0 else int(os.environ.get("RANK", 0))
        url = urlsplit(init_method or "env://")
        address, port = url.hostname, url.port
        if url.scheme == "env":
            address, port = os.environ.get("MASTER_ADDR"), int(os.environ.get("MASTER_PORT", 0))
    except ValueError:
        return
    if store is not None or mine == 0 or not address or not port:
        return
    deadline = monotonic() + 0.3
    while monotonic() < deadline:
        try:
            socket.create_connection((address, port), timeout=0.1).close()
            return
        except OSError:
            sleep(0.003)


def _grouping(original: Callable) -> Callable:
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args, **kwargs):
        if backend is not None:
            backend = _ours(backend)
        return original(ranks, timeout, backend, *args, **kwargs)

    return new_group


def _naming(original: Callable) -> Callable:
    def get_backend(group: Any = None) -> str:
        name = original(group)
        return "gloo" if name == BACKEND else name

    return get_backend
