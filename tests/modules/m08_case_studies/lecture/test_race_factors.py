"""Two tries: by which factor one was faster, or that there is nothing to compare."""

import pytest

from hpml.modules.m08_case_studies.lecture.race_factors import factors
from hpml.train.race.tries import BELOW, FAILED, REACHED, Point, Try


def made(seconds: float, images: int = 128, status: str = REACHED) -> Try:
    points = (Point(images, seconds, 0.6),)
    return Try("tiny", 0.5, switches=None, status=status, points=points)  # type: ignore[arg-type]


def test_the_gain_is_the_product_of_both_factors():
    assert factors(made(8.0), made(2.0)) == (True, 4, 1, 4)
    assert factors(made(9.0), made(2.0, images=64)) == (True, 4.5, 2, 2.25)


def test_what_else_may_be_seen_is_not_taken_for_it():
    assert not factors(made(8.0), made(9.0)).held
    assert not factors(made(8.0), made(2.0, images=32)).held  # images/s stayed


@pytest.mark.parametrize("status", [BELOW, FAILED])
def test_a_try_that_did_not_reach_the_goal_has_no_time_to_compare(status):
    assert factors(made(8.0), made(2.0, status=status)) is None
    assert factors(made(8.0, status=status), made(2.0)) is None
