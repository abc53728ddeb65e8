"""The course's table of frameworks: what each one distributes, how, and what became of it.

`frameworks.csv` has one row for each. It was made in November 2026 (`MADE`).

- `first` is the year of the first public release: its first tag, or its announcement or paper.
- `until` is the year in which its makers ended it (a notice, a retirement, a merge). Where nobody
  wrote one, it is the year of the last release or, without releases, of the last change. It is
  empty for those with a release in the two years before the table was made: they are *developed*.
- `kind` is what the user writes: the layers of a network, one after the other (`layers`), a graph
  that is run later (`graph`), a program that makes the graph while it runs (`run`), or a program of
  another framework, `on` which this one is built (`added`).
- `splits` is what is cut over the devices: the data, the tensors of a layer, or the layers.
- `source` is the publication, `read_at` where the row was looked up. What was not found is empty,
  never estimated.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

MADE = 2026  # November; the newest copies of repositories that were read are of August
KINDS = {
    "layers": "a list of layers",
    "graph": "a graph, run later (define-and-run)",
    "run": "the program makes the graph (define-by-run)",
    "added": "added to another framework",
}
SPLITS = ("data", "tensors", "layers")


@dataclass(frozen=True)
class Framework:
    """One framework. Texts are empty where nothing was found, or where there is nothing to name."""

    name: str
    by: str
    first: int
    until: int | None  # None: still developed
    kind: str  # of KINDS
    on: tuple[str, ...]  # the frameworks that it is added to
    language: str
    splits: tuple[str, ...]  # of SPLITS
    over: str
    enters: str  # where communication gets in
    fate: str
    into: str  # the framework that took up its code or its makers
    source: str
    read_at: str

    @property
    def developed(self) -> bool:
        return self.until is None

    @property
    def years(self) -> str:
        return f"{self.first}–{self.until or ''}"


@cache
def frameworks() -> tuple[Framework, ...]:
    """All frameworks of the table, by kind, then by year."""
    text = Path(__file__).with_name("frameworks.csv").read_text(encoding="utf-8")
    every = [_framework(row) for row in csv.DictReader(text.splitlines())]
    kinds = list(KINDS)
    return tuple(sorted(every, key=lambda one: (kinds.index(one.kind), one.first, one.name)))


class Developed(NamedTuple):
    """Of frameworks, those that are still developed: all, those with operators of their own, and
    those that are added to another one. Held if they are fewer than half, and all added ones are
    for PyTorch."""

    held: bool
    left: int
    base: int  # with operators of their own, whether developed or not
    own: list[str]
    added: int
    for_pytorch: int
    elsewhere: bool  # some added ones are for others as well


def still_developed(shown: Sequence[Framework]) -> Developed:
    """How many are left, and on what they stand."""
    left = [one for one in shown if one.developed]
    base = [one for one in shown if one.kind != "added"]
    own = [one.name for one in base if one.developed]
    added = [one for one in left if one.kind == "added"]
    torch = sum("PyTorch" in one.on for one in added)
    held = 2 * len(left) < len(shown) and torch == len(added) > 0
    elsewhere = any(len(one.on) > 1 for one in added)
    return Developed(held, len(left), len(base), own, len(added), torch, elsewhere)


class MoreThanData(NamedTuple):
    """How many split tensors or layers too, of those that are developed, and of those that ended.
    Held if developed ones do more often."""

    held: bool
    now: int
    left: int
    once: int
    gone: int


def more_than_data(shown: Sequence[Framework]) -> MoreThanData:
    """Whether the developed ones split more than the data."""

    def splits_more(several: Sequence[Framework]) -> int:
        return sum(bool({"tensors", "layers"} & set(one.splits)) for one in several)

    left = [one for one in shown if one.developed]
    gone = [one for one in shown if not one.developed]
    now, once = splits_more(left), splits_more(gone)
    held = now * len(gone) > once * len(left)
    return MoreThanData(held, now, len(left), once, len(gone))


def table(shown: Sequence[Framework] | None = None) -> str:
    """The frameworks as a Markdown table, a row each, "–" for what the sources do not give."""
    lines = [
        "| framework, by | years | splits, over | where communication gets in "
        "| what became of it |",
        "|---|---|---|---|---|",
    ]
    for one in frameworks() if shown is None else shown:
        cut = f"{', '.join(one.splits)} over {one.over}" if one.splits else "–"
        cells = (
            f"**{one.name}** ({one.language}), {one.by}",
            one.years,
            cut,
            one.enters or "–",
            one.fate,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sources() -> str:
    """Where each row is from, as a Markdown list."""
    return "\n".join(
        f"- **{one.name}**: {one.source}. Looked up: {one.read_at}." for one in frameworks()
    )


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _framework(row: Mapping[str, str]) -> Framework:
    plain = (
        "name",
        "by",
        "kind",
        "language",
        "over",
        "enters",
        "fate",
        "into",
        "source",
        "read_at",
    )
    return Framework(
        first=int(row["first"]),
        until=int(row["until"]) if row["until"] else None,
        on=tuple(row["on"].split("; ")) if row["on"] else (),
        splits=tuple(row["splits"].split(", ")) if row["splits"] else (),
        **{name: row[name] for name in plain},
    )
