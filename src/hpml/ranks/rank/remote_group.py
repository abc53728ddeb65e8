"""For a rank that has a proxy: the process groups of torch.distributed, without a network.

A `RemoteGroup` is what torch.distributed calls. It sends each call to the rank's proxy
(`hpml.ranks.rank.proxy_connection`), which makes it with Gloo and records it (`hpml.ranks.proxy`):
what a rank does to its own process does not change what is recorded.

    rank ── events, calls ──► proxy ── events, ledger ──► parent
         ◄── ends of calls ──       ◄── Gloo ──► other proxies
"""

import functools
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import FakeProcessGroup, ProcessGroup, Work

from hpml.ranks.rank import dispatcher, joining, recorder, remote_meeting
from hpml.ranks.rank.arena import Arena
from hpml.ranks.rank.proxy_connection import Connection

BACKEND = "remote"
METHODS = frozenset(dispatcher.communicating(ProcessGroup))


class RemoteGroup(ProcessGroup):
    """A process group whose calls are made by the rank's proxy."""

    supports_coalescing = supports_splitting = supports_time_estimate = False

    def __init__(self, options: Any, _backend_options: Any) -> None:
        # PyTorch's own types have only its other constructor
        super().__init__(options.group_rank, options.group_size)  # type: ignore[call-arg]
        named = tuple(options.global_ranks_in_group)
        ranks = named or tuple(range(options.group_size))
        name = f"{options.group_id} {_place[-100:]}"
        assert _connection is not None  # made by `install`
        self._number = _connection.group(name, ranks, not named, options.timeout)
        # ProcessGroup takes its name from a backend, so register one that refuses all calls.
        fake: Any = FakeProcessGroup  # PyTorch's types of it lack what follows
        fails = fake.Options()
        fails.error_on_collective = True
        backend = fake._create_internal(options.group_rank, options.group_size, fails)
        self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.CUSTOM, backend)

    def getBackendName(self) -> str:
        return BACKEND  # C++ looks into what calls itself gloo

    def name(self) -> str:
        return "gloo"

    def _get_backend(self, _device: torch.device) -> Any:
        return self

    def supports_tensor_alloc(self, _device: torch.device) -> bool:
        return False

    def split_group(self, *_: Any, **__: Any) -> ProcessGroup:
        raise NotImplementedError("here groups are made by torch.distributed.new_group")

    merge_remote_group = split_group


def _remote(method: str) -> Callable[..., Any]:
    def call(self: RemoteGroup, *args: Any, **kwargs: Any) -> Work | None:
        assert _connection is not None
        work = _connection.call(self._number, method, args, kwargs)
        if method != "monitored_barrier":  # which waits itself
            return work
        work.wait_silently()
        return None

    call.__name__ = method
    return call


for _method in METHODS:
    setattr(RemoteGroup, _method, _remote(_method))


_connection: Connection | None = None
_own_rank, _ranks = 0, 1
_place = ""  # where the ranks of the default group have met


class MarksOnly(recorder.Recorder):
    """Of a rank with a proxy: calls are recorded there, and made there or not at all."""

    def enter(self, *_: Any, **__: Any) -> int:
        raise RuntimeError("here only groups made by torch.distributed communicate")


def install(
    send: Callable[[list[Any]], None],
    ends: socket.socket,
    arena: Arena,
    watched: str,
    rank: int,
    world_size: int,
) -> None:
    """From now on, gloo groups of this process, which is `rank`, are made by its proxy.

    Called once, in a freshly forked rank that has its environment. What learners see of
    torch.distributed stays as it is: `get_backend()` says gloo, `init_process_group("gloo")` works
    from the environment.
    """
    global _connection, _own_rank, _ranks
    _own_rank, _ranks = rank, world_size
    node = int(os.environ.get("GROUP_RANK", 0))
    remote_meeting.install(os.environ.get("MASTER_ADDR"), node)
    marks = MarksOnly(send, watched)
    recorder.install(marks)
    joining.record_groups(marks)
    _connection = Connection(send, ends, arena, marks.line)
    dist.Backend.register_backend(BACKEND, RemoteGroup, extended_api=True, devices=["cpu"])
    wrappers = {
        "init_process_group": _initialising,
        "new_group": _grouping,
        "get_backend": _naming,
    }
    for name, wrapper in wrappers.items():
        wrapped = functools.wraps(getattr(c10d, name))(wrapper(getattr(c10d, name)))
        setattr(c10d, name, wrapped)
        setattr(dist, name, wrapped)


def _remote_for(backend: str | None) -> str | None:
    return BACKEND if str(backend).lower() in ("none", "gloo", "cpu:gloo") else backend


def _initialising(original: Callable) -> Callable:
    def init_process_group(
        backend: str | None = None,
        init_method: str | None = None,
        timeout: timedelta | None = None,
        world_size: int = -1,
        rank: int = -1,
        store: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        global _place
        if store is None:
            _place, rank, world_size = remote_meeting.of_method(init_method, rank, world_size)
        else:
            _place = remote_meeting.of_store(store)
        if rank != _own_rank:  # its proxy would be another member than this process believes
            raise ValueError(f"rank {_own_rank} gave init_process_group the rank {rank}")
        if world_size > _ranks:
            raise ValueError(
                f"rank {rank} gave init_process_group the world size {world_size}, and there "
                f"{'are' if _ranks > 1 else 'is'} {_ranks} in all"
            )
        # Proxies meet by themselves. What is left of the store belongs to this process alone.
        backend, store = _remote_for(backend), dist.HashStore()
        original(backend, None, timeout, world_size, rank, store, *args, **kwargs)

    return init_process_group


def _grouping(original: Callable) -> Callable:
    def new_group(
        ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        backend = backend and _remote_for(backend)
        return original(ranks, timeout, backend, *args, **kwargs)

    return new_group


def _naming(original: Callable) -> Callable:
    def get_backend(group: Any = None) -> str:
        name = original(group)
        return "gloo" if name == BACKEND else name

    return get_backend
