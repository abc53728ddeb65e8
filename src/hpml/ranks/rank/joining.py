"""`init_process_group` is a call of the ledger too, and ranks do not come too early.

It is a collective itself: a rank that never joins leaves the others waiting there.
"""

import functools
import os
import socket
from collections.abc import Callable
from time import monotonic, sleep  # by value: an answer may replace them in `time`
from typing import Any
from urllib.parse import urlsplit

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from hpml.ranks.rank.recorder import Recorder


def install(recorder: Recorder) -> None:
    """From now on, this process's `init_process_group` is recorded by `recorder`."""
    c10d.init_process_group = dist.init_process_group = _recorded(c10d.init_process_group, recorder)


def _recorded(original: Callable[..., None], recorder: Recorder) -> Callable[..., None]:
    @functools.wraps(original)
    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        world_size = int(kwargs.get("world_size", -1))
        world = range(world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1)))
        index = recorder.enter("init_process_group", tuple(world))
        recorder.wait(index)
        _await_rank_zero(*args, **kwargs)
        original(backend or "gloo", *args, **kwargs)
        recorder.finish(index)

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
