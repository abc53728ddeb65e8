"""What a rank asks for where it is to meet the others: to be which rank of how many, and where."""

import ipaddress
import os
import socket
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import torch.distributed as dist

LOCAL = ("localhost", "127.0.0.1", "::1")  # of each machine, itself
_home = {"address": "", "itself": ""}  # rank 0's address, and a name for the machine of this rank


def install(address: str | None, rank: int) -> None:
    """This process is `rank`, and rank 0 is at `address`."""
    _home.update(address=address or "", itself=f"where rank {rank} is")


def of_method(
    init_method: str | None, rank: int, world_size: int
) -> tuple[str | None, str, int, int]:
    """Host, port, rank and world size, as `init_process_group` has them from its arguments (where
    they are not negative), its URL and the environment. Of a file: None, and its path.

    Raises ValueError where they are in none of those.
    """
    url = urlsplit(init_method or "env://")
    given = dict(parse_qsl(url.query))
    if rank >= 0:
        given["rank"] = str(rank)
    if world_size >= 0:
        given["world_size"] = str(world_size)

    def found(name: str, variable: str) -> str:
        text = given.get(name)
        if text is None and url.scheme == "env":
            text = os.environ.get(variable)
        if text is None:
            raise ValueError(
                f"Error initializing torch.distributed using {url.scheme}:// rendezvous: "
                f"{name} is not given, and environment variable {variable} expected, but not set"
            )
        return text

    numbers = int(found("rank", "RANK")), int(found("world_size", "WORLD_SIZE"))
    if url.scheme == "env":
        return found("address", "MASTER_ADDR"), str(int(found("port", "MASTER_PORT"))), *numbers
    if url.scheme == "tcp" and url.port is not None:
        return url.hostname or "", str(url.port), *numbers
    if url.scheme == "file":
        return None, url.path, *numbers
    raise ValueError(f"No rendezvous handler for {init_method}")


def of_store(store: Any) -> tuple[str | None, str] | None:
    """Host and port of a store of the answer's, as `of_method`; None for one without a place."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if isinstance(store, dist.FileStore):
        return None, store.path  # type: ignore[attr-defined]  # PyTorch's types lack it
    if isinstance(store, dist.TCPStore):
        return store.host, str(store.port)
    return None


def asked(rank: int | None, size: int, host: str | None, port: str) -> list[Any]:
    """An event's form of `hpml.ranks.evidence.Meeting`."""
    if host is None:
        return [rank, size, f"the file {port}", "a file", port]
    return [rank, size, f"{host}:{port}", _machine(host), port]


def _machine(host: str) -> str:
    """The machine that `host` leads to from here; "" where only the network would know."""
    try:
        if host in LOCAL or _is_own(host):
            return _home["address"] if _is_own(_home["address"]) else _home["itself"]
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def _is_own(host: str) -> bool:
    """Whether it is an address of this machine. ValueError where it is a name."""
    address = ipaddress.ip_address(host)
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True
