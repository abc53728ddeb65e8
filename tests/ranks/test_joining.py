"""Where ranks meet at a TCP address, none asks before rank 0 can answer."""

import socket
import threading

import pytest

from hpml.ranks.rank.joining import _await_rank_zero


@pytest.fixture
def late(monkeypatch):
    """An address where nobody listens yet, in the environment."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.settimeout(5)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
    with server:
        yield server


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
    waiting = threading.Thread(target=_await_rank_zero, args=(url,), kwargs={"rank": 1})
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
    _await_rank_zero(**given)
    assert not comes(late, 0.1)


@pytest.mark.parametrize("port", ["none", "99999", ""])
def test_an_address_that_is_none_is_left_to_pytorch(monkeypatch, port):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", port)
    _await_rank_zero(rank=1)
    _await_rank_zero("tcp://127.0.0.1:none", rank=1)
