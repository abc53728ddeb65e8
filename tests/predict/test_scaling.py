"""Amdahl's model: what is put in comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.predict.scaling import Amdahl, fit_amdahl

PARTS = st.floats(1e-3, 1e3)


@given(PARTS, PARTS, st.lists(st.integers(1, 512), min_size=2, unique=True))
def test_a_fit_to_the_models_own_times_is_the_model(serial, parallel, ranks):
    model = Amdahl(serial, parallel)
    fitted = fit_amdahl(ranks, [model.seconds(p) for p in ranks])
    for p in (1, 7, 1000):
        assert fitted.seconds(p) == pytest.approx(model.seconds(p), rel=1e-3)


def test_the_speed_up_is_bounded_by_the_serial_fraction():
    model = Amdahl(serial=0.1, parallel=0.9)
    assert model.serial_fraction == pytest.approx(0.1)
    assert model.seconds(1) / model.seconds(9) == pytest.approx(5)
    assert model.seconds(1) / model.seconds(10**9) == pytest.approx(10)


def test_no_part_is_negative_whatever_was_measured():
    better_than_ideal = fit_amdahl([1, 2], [1.0, 0.4])
    assert better_than_ideal.serial == 0
    slower_with_more = fit_amdahl([1, 2], [1.0, 1.3])
    assert slower_with_more.parallel == 0
    assert 1.0 < slower_with_more.serial < 1.3


def test_each_measurement_counts_alike_however_short():
    # Exact at 1 rank and 10 % off at 64, or the other way round: the fit lies between the two.
    fitted = fit_amdahl([1, 64, 64], [64.0, 1.0, 1.1])
    assert fitted.seconds(1) == pytest.approx(64, rel=0.01)
    assert 1.0 < fitted.seconds(64) < 1.1


def test_one_number_of_ranks_is_refused():
    with pytest.raises(ValueError, match="two numbers are needed"):
        fit_amdahl([2, 2], [1.0, 1.1])
