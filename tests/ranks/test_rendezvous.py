"""The store at which Horovod's ranks meet, asked as Horovod asks."""

import http.client
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.ranks.flavour import environment, horovod_environment
from hpml.ranks.proxy import rendezvous


@pytest.fixture
def ask():
    """`ask(method, path, body)` gives the status and what came back."""
    listener = rendezvous.listen()
    store, over = rendezvous.Store([listener]), threading.Event()

    def serve():
        while not over.is_set():
            store.turn(0.05)

    server = threading.Thread(target=serve)
    server.start()

    def ask(method, path, body=None):
        connection = http.client.HTTPConnection(*listener.getsockname(), timeout=20)
        connection.request(method, path, body)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    yield ask
    over.set()
    server.join(10)
    listener.close()


def test_what_was_set_is_found(ask):
    value = bytes(range(256)) * 300  # more than comes in one piece
    assert ask("PUT", "/global/0", value) == (200, b"")
    assert ask("GET", "/global/0") == (200, value)


def test_who_asks_early_is_answered_when_the_key_is_set(ask):
    found = []
    early = threading.Thread(target=lambda: found.append(ask("GET", "/global/1")))
    early.start()
    early.join(0.1)
    assert early.is_alive()
    ask("PUT", "/local/1", b"another scope's")
    early.join(0.1)
    assert early.is_alive()
    ask("PUT", "/global/1", b"here")
    early.join(10)
    assert found == [(200, b"here")]


def test_who_waits_too_long_may_ask_again(ask, monkeypatch):
    monkeypatch.setattr(rendezvous, "HELD", 0.1)
    assert ask("GET", "/global/7") == (404, b"")


def test_a_scope_is_empty_when_all_of_its_ranks_have_met(ask, monkeypatch):
    monkeypatch.setattr(rendezvous, "HELD", 0.1)
    for rank in "01":
        ask("PUT", f"/global/rank_{rank}", b"host")
        ask("PUT", f"/global/{rank}", b"address")
    ask("DELETE", "/global/0")
    ask("DELETE", "/global/0")
    assert ask("GET", "/global/1") == (200, b"address")
    ask("DELETE", "/global/1")
    assert ask("GET", "/global/1") == (404, b"")


@pytest.mark.parametrize("path", ["/", "/one", "/a/b/c"])
def test_what_is_no_request_of_horovods_harms_nobody(ask, path):
    assert ask("GET", path)[0] == 400
    assert ask("PUT", "/global/0", b"x") == (200, b"")


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8))
def test_ranks_are_counted_on_each_host_and_across_hosts(hosts):
    told = [horovod_environment(rank, hosts) for rank in range(len(hosts))]
    for host in set(hosts):
        local = [int(e["HOROVOD_LOCAL_RANK"]) for e in told if e["HOROVOD_HOSTNAME"] == host]
        assert local == list(range(hosts.count(host)))
    for local_rank in range(max(hosts.count(host) for host in hosts)):
        across = [e for e in told if e["HOROVOD_LOCAL_RANK"] == str(local_rank)]
        assert sorted(int(e["HOROVOD_CROSS_RANK"]) for e in across) == list(range(len(across)))
        assert {e["HOROVOD_CROSS_SIZE"] for e in across} == {str(len(across))}


def test_torchs_ranks_have_torchruns_variables():
    told = environment("torch", 3, 4, 2, 1234)
    assert (told["RANK"], told["LOCAL_RANK"], told["GROUP_RANK"]) == ("3", "1", "1")
    assert (told["LOCAL_WORLD_SIZE"], told["MASTER_PORT"]) == ("2", "1234")
