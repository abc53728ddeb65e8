"""Loading, measured on a clock of the test's own."""

import time

import pytest

from hpml.measure.loading import images_per_second


class Batches:
    """Four batches of 10 images; each takes that pass's entry of `seconds`."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds = clock, iter(seconds)

    def __iter__(self):
        took = next(self.seconds)
        for _ in range(4):
            self.clock.now += took
            yield "images", [0] * 10


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch):
    def sleep(seconds):
        Clock.now += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: Clock.now)
    monkeypatch.setattr(time, "sleep", sleep)
    return Clock


def test_the_quicker_pass_counts(clock):
    assert images_per_second(Batches(clock, [1.0, 0.5])) == pytest.approx(20)
    assert images_per_second(Batches(clock, [0.5, 1.0])) == pytest.approx(20)


def test_a_device_takes_its_time_for_each_batch(clock):
    assert images_per_second(Batches(clock, [1.0]), compute=1.0, epochs=1) == pytest.approx(5)
