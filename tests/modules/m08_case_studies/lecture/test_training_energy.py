"""Joules for an image: in turn, and both sides of what is concluded."""

from itertools import count

import pytest

from hpml.modules.m08_case_studies.lecture.energy import Counter, Spent
from hpml.modules.m08_case_studies.lecture.training_energy import (
    Trained,
    by_threads,
    first_and_last,
    table,
)


def rounds(*millijoules: float, watts: float = 10.0) -> list[Trained]:
    return [Trained(1000, Spent({"package-0": each}, seconds=each / watts)) for each in millijoules]


def test_less_energy_or_more_where_all_rounds_agree():
    one, two = rounds(30.0, 31.0, 32.0), rounds(20.0, 22.0, 29.0, watts=15.0)
    found = first_and_last({"1 thread": one, "2 threads": two})
    assert (found.held, found.less) == (True, True)
    assert found.ways["1 thread"] == pytest.approx((10, 30, 32))
    assert found.ways["2 threads"] == pytest.approx((15, 20, 29))
    found = first_and_last({"1 thread": two, "2 threads": one})
    assert (found.held, found.less) == (True, False)


def test_rounds_that_overlap_show_no_difference():
    assert not first_and_last({"1 thread": rounds(30, 33), "2 threads": rounds(29, 31)}).held


def test_each_way_is_measured_in_turn_with_its_images():
    joules = count()  # one more at each look
    found = by_threads([Counter("package-0", lambda: float(next(joules)))], rounds=2, steps=1)
    assert list(found) == ["1 thread", "2 threads"]
    assert [one.images for one in found["2 threads"]] == [64, 64]
    assert [one.spent.joules for one in found["1 thread"]] == [1.0, 1.0]
    assert table(found).splitlines()[1].startswith("1 thread")
