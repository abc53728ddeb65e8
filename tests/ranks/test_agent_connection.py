"""Connections of a launch to its agents: both sides prove that they know its key."""

import contextlib
import secrets
import socket
import threading

import pytest

from hpml.ranks import agent_connection as connection
from hpml.ranks.agent_connection import CHANNEL, CONTROL, accept, bare, connect, hear, listen, say

KEY = secrets.token_bytes(32)


@pytest.fixture
def launch():
    """A launch that takes in connections: its place, and what it made of each."""
    made = []
    with listen() as listener:

        def serve():
            while True:
                try:
                    raw, _ = listener.accept()
                except OSError:
                    return
                made.append(accept(raw, KEY))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield ("127.0.0.1", listener.getsockname()[1]), made
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    for each in made:
        if each is not None:
            each[0].close()


def taken(made):
    for _ in range(1000):
        if made:
            return made[0]
        threading.Event().wait(0.01)
    raise AssertionError("nobody came")


def test_messages_go_both_ways_with_kind_and_rank(launch):
    place, made = launch
    mine = connect([place], KEY, CONTROL, 3)
    theirs, kind, rank = taken(made)
    assert (kind, rank) == (CONTROL, 3)
    say(mine, {"says": "ready"})
    assert hear(theirs) == {"says": "ready"}
    say(theirs, {"end": True})
    assert hear(mine) == {"end": True}
    mine.close()
    with pytest.raises(EOFError):
        hear(theirs)


def test_bytes_without_frames_follow_on_a_bare_socket(launch):
    place, made = launch
    mine = bare(connect([place], KEY, CHANNEL, 0))
    theirs = bare(taken(made)[0])
    mine.sendall(b"as it is")
    assert theirs.recv(100) == b"as it is"
    mine.close()
    assert theirs.recv(100) == b""
    theirs.close()


def test_an_agent_goes_on_to_the_address_that_answers(launch, monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE", 1)
    place, made = launch
    with socket.create_server(("127.0.0.1", 0)) as full:
        nobody = full.getsockname()
    connect([nobody, place], KEY, CONTROL, 1).close()
    assert taken(made)[2] == 1


def test_who_does_not_know_the_key_is_not_let_in_and_learns_nothing(launch):
    place, made = launch
    with pytest.raises(OSError, match="is not the launch"):
        connect([place], secrets.token_bytes(32), CONTROL, 0)
    assert taken(made) is None


@pytest.mark.parametrize("sent", [b"", b"\0\0\0\4spam", b"\xff" * 100, b"GET / HTTP/1.0\r\n\r\n"])
def test_whatever_a_stranger_sends_is_none(launch, sent, monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE", 1)
    place, made = launch
    with socket.create_connection(place) as stranger:
        with contextlib.suppress(OSError):  # it may be turned away before it has sent all
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
        assert taken(made) is None


def test_a_stranger_who_is_silent_costs_seconds(launch, monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE", 1)
    place, made = launch
    with socket.create_connection(place):
        assert taken(made) is None


def test_an_agent_is_not_taken_in_by_another_listener():
    with socket.create_server(("127.0.0.1", 0)) as false:

        def welcome():
            raw, _ = false.accept()
            raw.sendall(b"\0\0\0\x09#WELCOME#")
            raw.close()

        thread = threading.Thread(target=welcome, daemon=True)
        thread.start()
        with pytest.raises(OSError, match="is not the launch"):
            connect([false.getsockname()], KEY, CONTROL, 0)
        thread.join(10)
