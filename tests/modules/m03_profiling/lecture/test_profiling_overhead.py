"""What profiling costs: each way is measured beside none, with its own settings."""

import torch

from hpml.modules.m03_profiling.lecture import profiling_overhead
from hpml.modules.m03_profiling.lecture.profiling_overhead import (
    OFF,
    STEPS,
    WAYS,
    Overhead,
    measure,
)


def test_each_way_runs_the_same_steps_in_turns_and_is_compared_in_its_round(monkeypatch):
    order = []

    class Profile:
        def __init__(self, **options):
            self.options = options

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def step(self):
            order[-1].append(self.options)

    monkeypatch.setattr(profiling_overhead, "profile", Profile)
    found = measure(rounds=2, step=lambda: order.append([]))
    assert [one.way for one in found] == list(WAYS)
    assert all(len(one.seconds) == 2 and min(one.seconds) > 0 for one in found)
    assert all(one.off == found[0].seconds for one in found)
    expected = []
    for options in 2 * list(WAYS.values()):
        with_step = [] if options is None else [options | {"activities": profiling_overhead.CPU}]
        expected += [with_step] * (STEPS + 1)
    assert order[1:] == expected


def test_the_ratio_is_that_of_the_medians_and_its_spread_that_of_the_rounds():
    one = Overhead("recording", (2.0, 9.0, 4.0), (1.0, 3.0, 2.0))
    assert (one.ratio, one.spread) == (2.0, (2.0, 3.0))


def test_real_profilers_run_and_leave_the_threads_as_they_were():
    threads = torch.get_num_threads()
    found = measure(rounds=1)
    assert torch.get_num_threads() == threads
    assert found[0].way == OFF
    assert found[0].ratio == 1.0
