"""What a dollar buys of a part."""

import pytest

from hpml.modules.m02_hardware.lecture.prices import READ_ON, Price, cheapest, prices, table
from hpml.predict.hardware import part


def test_a_dollar_buys_the_data_sheet_over_the_price():
    one = Price(part("V100"), 0.5)
    assert (one.tflops, one.bandwidth, one.memory) == pytest.approx((250, 1800, 32))


def test_which_part_is_cheapest_depends_on_what_binds():
    old, new = Price(part("V100"), 0.5), Price(part("B200"), 5.0)
    found = cheapest([old, new])
    assert (found.held, found.compute, found.bandwidth) == (True, new, old)
    assert not cheapest([old, Price(part("B200"), 500.0)]).held


def test_the_list_has_its_date_and_a_row_for_each_part():
    shown = prices()
    lines = table(shown).splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [one.part.name for one in shown]
    assert lines[-1].endswith(READ_ON)
    assert all(one.usd_per_hour > 0 for one in shown)
