"""The day as rows of a clock: modules, and the breaks between their slots."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpml.course.schedule import Module

LUNCH = (12 * 60, 14 * 60)  # a break that begins between these, in minutes after midnight
SHORTEST_LUNCH = 30  # minutes

_CLOCK = re.compile(r"(\d\d):(\d\d)")


@dataclass(frozen=True)
class Pause:
    """Time between two slots: a break, or lunch."""

    follows: str  # the id of the module that it comes after
    at: str  # "10:30"
    minutes: int

    @property
    def name(self) -> str:
        """`Lunch` where it is long enough, and at that time of the day."""
        lunch = LUNCH[0] <= _minutes(self.at) < LUNCH[1] and self.minutes >= SHORTEST_LUNCH
        return "Lunch" if lunch else "Break"


def begins(module: Module) -> int | None:
    """Minutes after midnight at which a module's slot begins; None if its slot has no hour."""
    return _minutes(module.slot) if _CLOCK.fullmatch(module.slot) else None


def at(module: Module, passed: float) -> str:
    """The clock after so many minutes: "09:12"; "0:12" where the module has no hour."""
    begun = begins(module)
    total = (begun or 0) + round(passed)
    clock = f"{total // 60}:{total % 60:02d}"
    return clock.zfill(5) if begun is not None else clock


def after(module: Module, modules: Sequence[Module]) -> Pause | None:
    """The pause between a module's slot and the next one; None where that follows at once."""
    begun = begins(module)
    later = [start for other in modules if (start := begins(other)) is not None]
    if begun is None:
        return None
    end = begun + module.minutes
    following = min((start for start in later if start > begun), default=end)
    if following == end:
        return None
    return Pause(module.id, at(module, module.minutes), following - end)


def rows(modules: Sequence[Module]) -> Iterator[Module | Pause]:
    """The modules in their order, with the pauses between their slots."""
    for module in modules:
        yield module
        if pause := after(module, modules):
            yield pause


def _minutes(clock: str) -> int:
    hours, minutes = map(int, clock.split(":"))
    return hours * 60 + minutes
