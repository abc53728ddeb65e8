"""What published scaling tables and their predicted ends come to."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from hpml.predict.published_predicted import Table
from hpml.predict.scaling import Step
from hpml.predict.scaling_misses import not_in_the_model

EXPOSED = "exposed communication"


class TwoNetworks(NamedTuple):
    """A step of `ranks` on a slow network and on a fast one, and the part that differs `most`."""

    held: bool
    ranks: int
    slow: Step
    fast: Step
    most: str


def two_networks(slow: Table, fast: Table) -> TwoNetworks:
    """Is it the exposed communication in which one cluster differs on two networks?"""
    ranks = min(slow.rows[-1].row.ranks, fast.rows[-1].row.ranks)
    one, other = (table.fitted.predict(ranks).step for table in (slow, fast))
    parts = {EXPOSED: one.exposed - other.exposed}
    parts["straggling"] = one.straggling - other.straggling
    parts["computing"] = one.compute - other.compute
    most = max(parts, key=parts.__getitem__)
    return TwoNetworks(most == EXPOSED and parts[most] > 0, ranks, one, other, most)


class AllTables(NamedTuple):
    """Of all predicted `rows`: the median error of the `model`, and of carrying on from the last
    row that was fitted; how many tables were `met`, and the share of rows `inside` theirs."""

    held: bool
    rows: int
    model: float
    carried_on: float
    met: int
    inside: float


def all_tables(tables: Sequence[Table]) -> AllTables:
    """Is the model nearer than carrying on from the last row that was fitted?"""
    rows = [row for table in tables for row in table.test]
    model = statistics.median(abs(row.error) for row in rows)
    carried_on = statistics.median(abs(row.carried_on / row.published - 1) for row in rows)
    met = sum(table.met for table in tables)
    inside = sum(row.published in row.interval for row in rows) / len(rows)
    held = model < carried_on and met > len(tables) / 2
    return AllTables(held, len(rows), model, carried_on, met, inside)


class Misses:
    """The tables that were missed, as Markdown: a row each with what its rows show."""

    def __init__(self, tables: Sequence[Table]):
        self.lines = not_in_the_model(tables)

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {line}." for line in self.lines)

    __repr__ = _repr_markdown_
