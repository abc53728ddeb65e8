"""What a rank and its proxy are connected by, and where proxies find each other: made before either
is forked.
"""

import os
import socket
import sys

from hpml.ranks.rank.arena import Arena


class RankProxyLink:
    """Two pairs of sockets and shared memory, of one rank and its proxy."""

    def __init__(self) -> None:
        self.arena = Arena()
        self._of_rank, self._of_proxy = zip(socket.socketpair(), socket.socketpair(), strict=True)

    def for_rank(self) -> tuple[socket.socket, socket.socket]:
        """In the rank: the channel, and where ends of calls come in."""
        return self._keep(self._of_rank, self._of_proxy)

    def for_proxy(self) -> tuple[socket.socket, socket.socket]:
        """In the proxy: the other ends of those."""
        return self._keep(self._of_proxy, self._of_rank)

    def leave(self) -> None:
        """In all other processes."""
        self._keep((), self._of_rank + self._of_proxy)
        self.arena.leave()

    @staticmethod
    def _keep(ours: tuple, theirs: tuple) -> tuple:
        for each in theirs:
            each.close()
        return ours


def meeting_place() -> int | None:
    """A file for the store at which proxies meet, which no rank can open: its descriptor. None
    where the system has no such files: they then meet where ranks do."""
    return os.memfd_create("hpml-store") if sys.platform == "linux" else None
