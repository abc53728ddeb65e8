"""Two tries of the race: which of the two factors of the seconds moved."""

from typing import NamedTuple

from hpml.train.race.tries import REACHED, Try


class Factors(NamedTuple):
    """How many times as fast the second try was: of the images needed, times of images/s."""

    held: bool
    gain: float
    need: float
    rate: float


def factors(before: Try, after: Try) -> Factors | None:
    """Whether it was faster by images/s more than by needing fewer images.

    None if one of the two has not reached the goal: it has no time to compare.
    """
    if not before.status == after.status == REACHED:
        return None
    gain, need = before.seconds / after.seconds, before.images / after.images
    rate = after.images_per_second / before.images_per_second
    return Factors(gain > 1 and rate > 1 and abs(need - 1) < abs(rate - 1), gain, need, rate)
