"""Connections between a launch and its agents, on which both sides have proved to know its key."""

import json
import os
import socket
import struct
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

AT, KEY = "HPML_RANKS_AT", "HPML_RANKS_KEY"  # environment variables of an agent
CHANNEL, OUTPUT, STACKS, CONTROL = KINDS = ("channel", "output", "stacks", "control")
PATIENCE = 10  # seconds for the other side to prove it, and for a connection to be made
MOST = 2**20  # bytes of a message


def listen() -> socket.socket:
    """A socket that listens on all of this machine's addresses, at a port that is free."""
    return socket.create_server(("", 0), backlog=256)


def connect(places: list[tuple[str, int]], key: bytes, kind: str, rank: int) -> Connection:
    """Connect to the first of these addresses that answers as the launch. Raises OSError."""
    why = OSError("no address to connect to")
    for place in places:
        try:
            raw = socket.create_connection(place, PATIENCE)
        except OSError as error:
            why = error
            continue
        made = _proved(raw, key, first=False)
        if made is not None:
            say(made, {"kind": kind, "rank": rank})
            return made
        why = OSError(f"{place[0]}:{place[1]} is not the launch")
    raise why


def accept(raw: socket.socket, key: bytes) -> tuple[Connection, str, int] | None:
    """The connection, its kind and its rank, of one that was just made; None for a stranger's."""
    made = _proved(raw, key, first=True)
    if made is None:
        return None
    try:
        first = hear(made)
        return made, str(first["kind"]), int(first["rank"])
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        made.close()
        return None


def _proved(raw: socket.socket, key: bytes, first: bool) -> Connection | None:
    """Both sides' challenges (HMAC), one after the other, with a limit of time."""
    raw.settimeout(None)  # Connection reads from the descriptor
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        raw.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", PATIENCE, 0))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made = Connection(raw.detach())
    try:
        for mine in (first, not first):
            (deliver_challenge if mine else answer_challenge)(made, key)
    except Exception:  # AuthenticationError, EOFError, OSError: a stranger may send anything
        made.close()
        return None
    bare = socket.socket(fileno=os.dup(made.fileno()))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        bare.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 0, 0))
    bare.close()
    return made


def bare(connection: Connection) -> socket.socket:
    """The connection's socket, for bytes without frames."""
    made = socket.socket(fileno=os.dup(connection.fileno()))
    connection.close()
    return made


def say(connection: Connection, message: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(message).encode())


def hear(connection: Connection) -> dict[str, Any]:
    """The next message. Raises EOFError where the other side is gone."""
    message = json.loads(connection.recv_bytes(MOST))
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message
