"""Where an answer has its ranks meet, in ranks that have a proxy, and so no network to meet on.

Their proxies meet for them, where the answer's ranks would have: at one address and port, or at one
file. Ranks that name different places wait for each other, as they do on a network.
"""

import socket
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from hpml.ranks.rank import meeting

_meeting_at: set[str] = set()  # what leads to rank 0 from here
TAKEN = (29400, 29500)  # PyTorch's default ports: another job on rank 0's node came first


class TCPStore(dist.HashStore):
    """torch.distributed's, as far as ranks meet by it. What is kept in it stays in this process."""

    def __init__(
        self, host_name: str, port: int, *_: Any, timeout: timedelta | None = None, **__: Any
    ) -> None:
        super().__init__()
        self.host, self.port, self.place = host_name, port, _at(host_name, port)
        if timeout is not None:
            self.set_timeout(timeout)
        _made.append(self)


_made: list[TCPStore] = []  # a PrefixStore holds what is C++ in one, and nothing of `place`


def install(address: str | None, node: int) -> None:
    """From now on, stores of this process, a rank on `node`, are for meeting only. Rank 0 is on
    node 0, at `address`."""
    _meeting_at.add(address or "localhost")
    if node == 0:
        _meeting_at.update(meeting.LOCAL, {socket.gethostname()})
    setattr(dist, "TCPStore", TCPStore)  # noqa: B010


def _at(host: str | None, port: int | str) -> str:
    if host not in _meeting_at:
        raise dist.DistNetworkError(
            f"The client socket has failed to connect to {host}:{port}: rank 0 is not there"
        )
    if int(port) in TAKEN:
        raise dist.DistNetworkError(
            f"The server socket has failed to listen on {host}:{port}: address already in use"
        )
    return f"port {int(port)}"


def of_store(store: dist.Store) -> str:
    """The place at which ranks meet by `store`, made by the answer; "" for one without a place."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if isinstance(store, dist.FileStore):
        return f"file {store.path}"  # type: ignore[attr-defined]  # PyTorch's types lack it
    return getattr(store, "place", "")


def of_method(init_method: str | None, rank: int, world_size: int) -> tuple[str, int, int]:
    """Place, rank and world size, as `meeting.of_method`.

    Raises ValueError where they are nowhere, and DistNetworkError for an address that is not rank
    0's.
    """
    host, port, rank, world_size = meeting.of_method(init_method, rank, world_size)
    return (f"file {port}" if host is None else _at(host, port)), rank, world_size
