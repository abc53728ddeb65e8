"""Tries as somebody could have made them."""

from dataclasses import replace

from hpml.train.race.goals import Goal
from hpml.train.race.switches import Switches
from hpml.train.race.tries import BELOW, REACHED, Point, Try

TINY = Goal("tiny", 0.5, 64, 20, (8, 8), Switches(batch=16, epochs=2), 240.0)


def made(seconds: float = 4.0, *, status: str = REACHED, id: str = "", **turned) -> Try:
    """A try of two tests, the last one after `seconds`."""
    last = 0.6 if status == REACHED else 0.4
    return Try(
        goal=TINY.name,
        accuracy=TINY.accuracy,
        switches=replace(TINY.off, **turned),
        status=status,
        points=(Point(64, seconds / 2, 0.3), Point(128, seconds, last)),
        synthetic=True,
        device="cpu",
        cores=2.0,
        first_step=0.25,
        began="2026-01-01T10:00:00+00:00",
        id=id or f"{seconds:g}{status}",
    )


def below(**turned) -> Try:
    return made(9.0, status=BELOW, **turned)
