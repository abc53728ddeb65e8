"""Tries and the board as text, in 80 columns."""

import math
import textwrap
from collections.abc import Sequence

from hpml.train.race import tries
from hpml.train.race.board import Entry
from hpml.train.race.goals import Goal
from hpml.train.race.switches import in_words, turned
from hpml.train.race.tries import Try

WIDTH = 80
BUSY = 0.25  # of all cores used by other programs: then a try's seconds are not its own


def counted() -> str:
    """What seconds are, in a few lines."""
    return textwrap.fill(
        "Seconds: from the first batch read to the end of the test that reached the goal, with all "
        "tests, and with compiling, which each try does anew, most of it in its 1st step. Not "
        "counted: starting processes, making the network.",
        WIDTH,
    )


def settings(one: Try, goal: Goal) -> str:
    """What was turned, against all off."""
    return in_words(turned(one.switches, goal.off)) or "all off"


def outcome(one: Try) -> str:
    """How a try ended that did not reach its goal; empty for one that did."""
    if one.status == tries.REACHED:
        return ""
    if one.status == tries.BELOW:
        return f"not reached: {one.best_accuracy:.1%} at best"
    if one.status == tries.BEGAN:
        return "no end was recorded"
    return f"failed: {one.why}" if one.status == tries.FAILED else one.status


def of_tries(shown: Sequence[Try], goal: Goal) -> str:
    """A row for each try, in the order of their beginnings; a star marks the best."""
    quickest = tries.best(shown)
    lines = [f"{'try':>4} {'seconds':>8} {'images':>9} {'images/s':>9} {'1st step':>9}  turned on"]
    for number, one in enumerate(shown, 1):
        mark = "*" if quickest and one.id == quickest.id else " "
        ended = outcome(one)
        words = settings(one, goal) + (f"; {ended}" if ended else "")
        words += f"; other programs used {one.busy:.0%} of the cores" if one.busy > BUSY else ""
        lines += _row(
            f"{mark}{number:>3} {_shown(one.seconds, '.1f'):>8} {_shown(one.images or math.nan):>9}"
            f" {_shown(one.images_per_second):>9} {_shown(one.first_step, '.1f'):>9}  ",
            words,
        )
    return "\n".join(lines)


def of_board(entries: Sequence[Entry], unreadable: Sequence[str], goal: Goal) -> str:
    """A row for each learner, the quickest first."""
    lines = [f"{'place':>5} {'seconds':>8} {'tries':>6}  {'name':24} turned on"]
    for place, entry in enumerate(entries, 1):
        one = entry.best
        cores = f"{one.cores:g} core{'s' * (one.cores != 1)}"
        machine = cores if one.device == "cpu" else one.device
        lines += _row(
            f"{place:>5} {one.seconds:>8.1f} {entry.tried:>6}  {entry.name:24} ",
            f"{settings(one, goal)} ({machine})",
        )
    if not entries:
        lines.append("      nobody yet")
    if unreadable:
        many = f"{len(unreadable)} file{'s' * (len(unreadable) > 1)}"
        lines.append(f"skipped {many} that cannot be read: {', '.join(unreadable[:3])}")
    return "\n".join(lines)


def beside(one: Try, other: Try) -> str:
    """Two tries that reached their goal: seconds are images over images/s, so two factors."""
    gain = other.seconds / one.seconds
    return (
        f"{gain:.2f} times as fast as the other ({other.seconds:.1f} s): "
        f"{other.images / one.images:.2f} times from images "
        f"({other.images:,} to {one.images:,}), "
        f"{one.images_per_second / other.images_per_second:.2f} times from images/s "
        f"({other.images_per_second:,.0f} to {one.images_per_second:,.0f})"
    )


def _row(begin: str, words: str) -> list[str]:
    first, *rest = textwrap.wrap(words, WIDTH - len(begin)) or [""]
    return [begin + first, *(" " * len(begin) + line for line in rest)]


def _shown(number: float, form: str = ",.0f") -> str:
    return f"{number:{form}}" if math.isfinite(number) else "–"
