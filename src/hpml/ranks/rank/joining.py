"""`init_process_group` is a call of the ledger too, and ranks do not come too early.

It is a collective itself: a rank that never joins leaves the others waiting there. So is a
`TCPStore` that the answer makes. And so is `new_group`, which is not a call of the ledger, and is
known where a launch hangs.
"""

import functools
import socket
from collections.abc import Callable
from datetime import timedelta
from time import monotonic, sleep  # by value: an answer may replace them in `time`
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from hpml.ranks.rank import meeting
from hpml.ranks.rank.recorder import Recorder


def install(recorder: Recorder, address: str | None, rank: int) -> None:
    """From now on, where this process, `rank`, joins others is recorded by `recorder`. Rank 0 is at
    `address`."""
    meeting.install(address, rank)
    c10d.init_process_group = dist.init_process_group = _recorded(c10d.init_process_group, recorder)
    setattr(dist, "TCPStore", _recording(dist.TCPStore, recorder))  # noqa: B010
    record_groups(recorder)


def record_groups(recorder: Recorder) -> None:
    """From now on, `recorder` records when this process makes a group by `new_group`, which a mesh
    and others call, too."""
    original = c10d._new_group_with_tag

    @functools.wraps(original)
    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            members = range(dist.get_world_size()) if ranks is None else sorted(map(int, ranks))
        except (TypeError, ValueError):  # which PyTorch raises, too
            return original(ranks, *args, **kwargs)
        if kwargs.get("use_local_synchronization"):  # which is for members alone
            return original(ranks, *args, **kwargs)
        recorder.grouping(members)
        made = original(ranks, *args, **kwargs)
        recorder.grouped()
        return made

    setattr(c10d, "_new_group_with_tag", new_group)  # noqa: B010


def _recorded(original: Callable[..., None], recorder: Recorder) -> Callable[..., None]:
    @functools.wraps(original)
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
        place, mine, size = None, rank, world_size
        try:
            if store is None:
                *place, mine, size = meeting.of_method(init_method, rank, world_size)
            else:
                place = meeting.of_store(store) or ()
        except ValueError:  # which PyTorch raises, too
            pass
        meets = meeting.asked(mine, size, *place) if place else None
        index = recorder.enter("init_process_group", tuple(range(max(size, 1))), meets=meets)
        recorder.wait(index)
        if place and store is None and mine > 0:
            _await_rank_zero(*place)
        original(backend or "gloo", init_method, timeout, world_size, rank, store, *args, **kwargs)
        recorder.finish(index)

    return init_process_group


def _recording(original: type, recorder: Recorder) -> type:
    class TCPStore(original):
        def __init__(
            self,
            host_name: str,
            port: int,
            world_size: int | None = None,
            is_master: bool = False,
            *args: Any,
            **kwargs: Any,
        ) -> None:
            waits = kwargs.get("wait_for_workers", (*args, True, True)[1])
            size = world_size if waits and isinstance(world_size, int) else 1
            meets = meeting.asked(0 if is_master else None, size, host_name, str(port))
            index = recorder.enter("TCPStore", tuple(range(max(size, 1))), meets=meets)
            recorder.wait(index)
            super().__init__(host_name, port, world_size, is_master, *args, **kwargs)
            recorder.finish(index)

    return TCPStore


def _await_rank_zero(address: str | None, port: str) -> None:
    """Where ranks meet at a TCP address: let rank 0 listen there before this rank connects.

    A rank that finds nobody listening sleeps half a second and more before it tries again, and
    forked ranks get here within milliseconds of each other. Gives up in silence after a while:
    PyTorch then reports the error.
    """
    if not address or not 0 < int(port) < 2**16:
        return
    deadline = monotonic() + 0.3
    while monotonic() < deadline:
        try:
            socket.create_connection((address, int(port)), timeout=0.1).close()
            return
        except OSError:
            sleep(0.003)
