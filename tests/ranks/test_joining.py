"""Where ranks meet at a TCP address, none asks before rank 0 can answer."""

import socket
import threading

import pytest

from hpml.ranks.rank import meeting
from hpml.ranks.rank.joining import _await_rank_zero, _recorded
from hpml.ranks.rank.recorder import Recorder


@pytest.fixture
def late(monkeypatch):
    """An address where nobody listens yet, in the environment."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.settimeout(5)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with server:
        yield server


def joins(*args, **kwargs):
    """Call an init_process_group that only waits for rank 0; returns the events told."""
    told = []
    _recorded(lambda *_, **__: None, Recorder(told.append, "<answer>"))("gloo", *args, **kwargs)
    return told


def comes(server: socket.socket, limit: float) -> bool:
    server.settimeout(limit)
    try:
        server.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("how", ["environment", "url"])
def test_another_rank_waits_until_rank_0_listens(late, monkeypatch, how):
    port = late.getsockname()[1]
    if how == "url":
        monkeypatch.delenv("MASTER_PORT")
    url = f"tcp://127.0.0.1:{port}" if how == "url" else None
    waiting = threading.Thread(target=joins, args=(url,), kwargs={"rank": 1, "world_size": 2})
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    late.listen()
    assert comes(late, 5)
    waiting.join(5)
    assert not waiting.is_alive()


@pytest.mark.parametrize(
    "given", [{"rank": 0}, {"rank": 1, "store": object()}, {"init_method": "file:///x", "rank": 1}]
)
def test_rank_0_and_ranks_that_meet_elsewhere_do_not_knock(late, given):
    late.listen()
    joins(**given, world_size=2)
    assert not comes(late, 0.1)


@pytest.mark.parametrize("port", ["none", "99999", ""])
def test_an_address_that_is_none_is_left_to_pytorch(late, monkeypatch, port):
    monkeypatch.setenv("MASTER_PORT", port)
    assert [event[0] for event in joins(rank=1)] == ["call", "wait", "done"]
    joins("tcp://127.0.0.1:none", rank=1, world_size=2)
    _await_rank_zero("127.0.0.1", "99999")


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"rank": 0}, [0, 2, "127.0.0.1:PORT", "127.0.0.1", "PORT"]),
        ({"init_method": "file:///x?rank=0&world_size=2"}, [0, 2, "the file /x", "a file", "/x"]),
        (
            {"init_method": "tcp://10.9.9.9:3?rank=0&world_size=4"},
            [0, 4, "10.9.9.9:3", "10.9.9.9", "3"],
        ),
        ({"init_method": "tcp://node7:3?rank=0&world_size=4"}, [0, 4, "node7:3", "", "3"]),
        ({"init_method": "pigeon://", "rank": 0}, []),
    ],
)
def test_what_a_rank_asks_for_is_told(late, given, asked):
    meeting.install("127.0.0.1", 0)
    port = str(late.getsockname()[1])
    event = joins(**given)[0]
    assert event[16:] == [
        one.replace("PORT", port) if isinstance(one, str) else one for one in asked
    ]
