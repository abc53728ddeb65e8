"""The played server on a clock of the test's own: its rate and its latency, and no more."""

import pytest

from hpml.modules.m02_hardware.lecture import metadata_server
from hpml.modules.m02_hardware.lecture.metadata_server import PlayedServer, opens_per_second


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0
        slept = ()

    def sleep(seconds):
        Clock.slept += (seconds,)

    monkeypatch.setattr(metadata_server.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(metadata_server.time, "sleep", sleep)
    return Clock


def test_a_client_alone_waits_for_the_answer_and_the_way(clock):
    PlayedServer(latency=0.5, rate=10).open()
    assert clock.slept == pytest.approx((0.6,))


def test_clients_at_the_same_time_wait_for_each_other_but_share_the_latency(clock):
    server = PlayedServer(latency=0.5, rate=10)
    for _ in range(3):
        server.open()
    assert clock.slept == pytest.approx((0.6, 0.7, 0.8))


def test_a_server_that_was_idle_owes_nothing(clock):
    server = PlayedServer(latency=0.5, rate=10)
    server.open()
    clock.now = 100.0
    server.open()
    assert clock.slept == pytest.approx((0.6, 0.6))


def test_every_open_is_answered_once():
    server = PlayedServer(latency=0, rate=1e6)
    assert opens_per_second(server, clients=3, opens=50) > 0
    assert server.answered == 50
