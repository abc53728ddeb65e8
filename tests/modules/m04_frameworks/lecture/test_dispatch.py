"""The curve and its knee, on made-up times; that all ways run."""

import torch

from hpml.modules.m04_frameworks.lecture.dispatch import (
    Curve,
    add_curve,
    curve_picture,
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


def test_a_flat_part_and_a_slope_are_seen_and_a_slope_or_a_flat_line_alone_are_not():
    assert curve(1e-6, 1e-9).flat_then_steep
    assert not curve(1e-9, 1e-6).flat_then_steep
    assert not curve(1e-6, 0.0).flat_then_steep


def test_price_and_knee_are_marked_where_there_is_a_knee():
    [axes] = curve_picture(curve(1e-6, 1e-9), title="t").axes
    assert len(axes.lines) == 3
    assert "µs" in axes.get_ylabel()
    [flat] = curve_picture(curve(1e-6, 0.0), title="t").axes
    assert len(flat.lines) == 2


def test_each_size_and_each_way_is_timed_and_the_number_of_threads_is_as_before():
    before = torch.get_num_threads()
    found = add_curve((1, 64), rounds=1)
    assert list(found.seconds) == [1, 64]
    assert len(price_table(prices(rounds=1)).splitlines()) == 5
    assert torch.get_num_threads() == before
