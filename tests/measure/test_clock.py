"""The quickest of several runs, on a clock that the test sets."""

import itertools
import time

import torch

from hpml.measure.clock import quickest, with_threads


def test_the_quickest_counts_and_the_first_run_does_not(monkeypatch):
    clock = Clock([0.1, 5.0, 3.0, 4.0])
    monkeypatch.setattr(time, "perf_counter", clock)
    assert quickest(clock.work, seconds=10) == 3.0


def test_three_runs_at_least_however_long_they_take(monkeypatch):
    clock = Clock(itertools.repeat(100.0))
    monkeypatch.setattr(time, "perf_counter", clock)
    quickest(clock.work, seconds=1)
    assert clock.runs == 1 + 3


def test_threads_are_as_before_also_after_an_error():
    before = torch.get_num_threads()
    try:
        with with_threads(before + 1):
            assert torch.get_num_threads() == before + 1
            raise ZeroDivisionError
    except ZeroDivisionError:
        assert torch.get_num_threads() == before


class Clock:
    """Each run of `work` takes the next of `seconds`."""

    def __init__(self, seconds):
        self.seconds, self.now, self.runs = iter(seconds), 0.0, 0

    def __call__(self):
        return self.now

    def work(self):
        self.now += next(self.seconds)
        self.runs += 1
