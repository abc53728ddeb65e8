"""Loading, measured on a clock of the test's own."""

import time

import pytest

from hpml.measure.loading import best_by_turns, images_per_second


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


def test_pipelines_take_turns_and_the_quickest_turn_of_each_counts(clock):
    order = []

    class Named(Batches):
        def __init__(self, name, seconds):
            super().__init__(clock, seconds)
            self.name = name

        def __iter__(self):
            order.append(self.name)
            return super().__iter__()

    pipelines = {"a": Named("a", [1.0, 0.5]), "b": Named("b", [0.2, 0.25])}
    assert best_by_turns(pipelines, turns=2) == pytest.approx({"a": 20, "b": 50})
    assert order == ["a", "b", "a", "b"]
