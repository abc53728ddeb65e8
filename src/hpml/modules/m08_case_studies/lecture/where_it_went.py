"""Where parallel training went after this course's case studies, and what it rests on.

`where_it_went.csv` has one row for each claim, as its authors report it in `source`, and the
exercises of the course whose ideas it needs: "07 fsdp: why; 03 overlap: why", each with its
module. The numbers are the authors' own; nothing was measured again here.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Foundation:
    """An exercise ("fsdp") of a module ("07"); `why` is what a claim needs of it."""

    module: str
    exercise: str
    why: str


@dataclass(frozen=True)
class Claim:
    """What `source` reports of a system; `rests_on` are exercises of this course."""

    topic: str
    name: str
    claim: str
    rests_on: tuple[Foundation, ...]
    source: str
    link: str

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(one.module for one in self.rests_on)


@cache
def claims() -> tuple[Claim, ...]:
    """All rows of the table, in its order."""
    text = Path(__file__).with_name("where_it_went.csv").read_text(encoding="utf-8")
    rows: Iterable[dict[str, Any]] = csv.DictReader(text.splitlines())
    return tuple(
        Claim(**row | {"rests_on": tuple(map(_foundation, row["rests_on"].split("; ")))})
        for row in rows
    )


def table(shown: Sequence[Claim]) -> str:
    """The claims as a Markdown table; a topic is named in its first row only."""
    lines = ["| topic | what is reported | which exercise it rests on |", "|---|---|---|"]
    before = ""
    for one in shown:
        topic = "" if one.topic == before else f"**{one.topic}**"
        before = one.topic
        rests_on = "<br>".join(
            f"`{under.exercise}` ({under.module}): {under.why}" for under in one.rests_on
        )
        source = f"[{one.source}]({one.link})"
        lines.append(f"| {topic} | **{one.name}**. {one.claim} ({source}) | {rests_on} |")
    return "\n".join(lines)


class Mostly(NamedTuple):
    """The module that has `most` rows, the `second`, all `modules`, the number of `exercises`."""

    held: bool
    first: str
    most: int
    second: str
    next_most: int
    modules: tuple[str, ...]
    exercises: int


def mostly(shown: Sequence[Claim]) -> Mostly:
    """Whether one module has more claims that rest on it than each other module."""
    rows = Counter(module for one in shown for module in sorted(one.modules))
    (first, most), (second, next_most) = [*rows.most_common(), ("no other", 0)][:2]
    exercises = {under.exercise for one in shown for under in one.rests_on}
    held = most > next_most
    return Mostly(held, first, most, second, next_most, tuple(sorted(rows)), len(exercises))


def _foundation(text: str) -> Foundation:
    place, _, why = text.partition(": ")
    module, _, exercise = place.partition(" ")
    return Foundation(module, exercise, why)
