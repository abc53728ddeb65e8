"""The curve and its knee, on made-up times; that all ways run."""

import torch

from hpml.modules.m04_frameworks.lecture.dispatch import (
    Curve,
    add_curve,
    curve_finding,
    price_finding,
    price_table,
    prices,
)

SIZES = (1, 16, 256, 4096, 65536)


def curve(price, each):
    return Curve({size: price + each * size for size in SIZES})


def test_the_knee_is_where_work_costs_as_much_as_the_call():
    assert abs(curve(1e-6, 1e-9).knee - 1000) < 5


def test_without_a_slope_there_is_no_knee():
    assert curve(1e-6, 0.0).knee == float("inf")


def test_a_flat_part_and_a_slope_are_concluded():
    held, sentence, _ = curve_finding(curve(1e-6, 1e-9))
    assert held
    assert "At about 1,00" in sentence or "at about 1,00" in sentence


def test_a_slope_from_the_start_and_a_flat_line_are_not():
    assert not curve_finding(curve(1e-9, 1e-6))[0]
    held, _, otherwise = curve_finding(curve(1e-6, 0.0))
    assert not held
    assert "no flat part" in otherwise


def test_prices_that_rise_are_concluded_and_others_are_not():
    names = ("nothing", "into", "bare", "looks", "recorded")
    rising = dict(zip(names, (1e-8, 5e-8, 1e-6, 1.2e-6, 2e-6), strict=True))
    held, sentence, _ = price_finding(rising)
    assert held
    assert "0.05 of 2.0 µs" in sentence
    assert not price_finding({**rising, "recorded": 5e-7})[0]


def test_each_size_and_each_way_is_timed_and_the_number_of_threads_is_as_before():
    before = torch.get_num_threads()
    found = add_curve((1, 64), rounds=1)
    assert list(found.seconds) == [1, 64]
    assert len(price_table(prices(rounds=1)).splitlines()) == 5
    assert torch.get_num_threads() == before
