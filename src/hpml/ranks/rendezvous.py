"""Where Horovod's ranks find each other: the key-value store that horovodrun would serve over HTTP.

Horovod's Gloo asks for `GET /SCOPE/KEY`, sets with `PUT`, and says with `DELETE` that a rank has
met all the others of a scope. horovodrun's own store answers 404 to who comes early, and Horovod
then sleeps before it asks again; here an early GET is held until the key is set, which makes a
difference of tens of milliseconds to each launch.
(Horovod 0.28.1: common/gloo/http_store.cc, runner/http/http_server.py.)
"""

import asyncio
import contextlib
import os
import socket
from collections import defaultdict
from collections.abc import Sequence
from typing import NoReturn

HELD = 5.0  # seconds at most; who asked will ask again
LIMIT = 30.0  # seconds for a request to arrive whole
LARGEST = 2**20  # bytes of a value


class Store:
    """Values by scope and key, each the word of one rank."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, bytes]] = defaultdict(dict)
        self._met: dict[str, set[str]] = defaultdict(set)
        self._news = asyncio.Condition()

    async def put(self, scope: str, key: str, value: bytes) -> None:
        async with self._news:
            self._values[scope][key] = value
            self._news.notify_all()

    async def get(self, scope: str, key: str) -> bytes | None:
        """The value, waited for if need be; None where it does not come."""
        values = self._values[scope]
        with contextlib.suppress(asyncio.TimeoutError):
            async with self._news:
                await asyncio.wait_for(self._news.wait_for(lambda: key in values), HELD)
        return values.get(key)

    def delete(self, scope: str, rank: str) -> None:
        """`rank` is done with `scope`, which is emptied when all of its ranks are.

        So that Horovod can be shut down and initialised again.
        """
        self._met[scope].add(rank)
        # Each rank sets a key that is its number, and one with its host's name.
        if self._met[scope] >= {key for key in self._values[scope] if key.isdecimal()}:
            self._values[scope].clear()
            self._met[scope].clear()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which carries one request."""
        try:
            status, body = await self._answer(reader)
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n" % (status, len(body)))
            writer.write(b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            return  # it went away, or is no Horovod
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT)
        request, *headers = head.decode("latin-1").split("\r\n")
        method, path, _ = request.split(" ")
        _, scope, key = path.split("/")
        if method == "GET":
            value = await self.get(scope, key)
            return (b"404 Not Found", b"") if value is None else (b"200 OK", value)
        if method == "DELETE":
            self.delete(scope, key)
        elif method == "PUT":
            fields = dict(header.lower().split(":", 1) for header in headers if header)
            length = int(fields["content-length"])
            if not 0 <= length <= LARGEST:
                return b"413 Content Too Large", b""
            value = await asyncio.wait_for(reader.readexactly(length), LIMIT)
            await self.put(scope, key, value)
        return b"200 OK", b""


def listen() -> socket.socket:
    """A socket for the store on the loopback interface of the network this process is on."""
    return socket.create_server(("127.0.0.1", 0), backlog=128)


async def serve(listeners: Sequence[socket.socket]) -> None:
    """Serve one store on all of `listeners`, for as long as the process lives."""
    store = Store()
    servers = [await asyncio.start_server(store.answer, sock=one) for one in listeners]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def run(listeners: Sequence[socket.socket]) -> NoReturn:
    """`serve`, as all that this process, freshly forked, does."""
    try:
        asyncio.run(serve(listeners))
    finally:
        os._exit(70)
