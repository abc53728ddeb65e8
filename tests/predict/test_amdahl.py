"""Amdahl's model of the time on p ranks."""

import pytest

from hpml.predict.amdahl import Amdahl


def test_the_speed_up_is_bounded_by_the_serial_fraction():
    model = Amdahl(serial=0.1, parallel=0.9)
    assert model.serial_fraction == pytest.approx(0.1)
    assert model.seconds(1) / model.seconds(9) == pytest.approx(5)
    assert model.seconds(1) / model.seconds(10**9) == pytest.approx(10)
