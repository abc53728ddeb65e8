"""How far the predictor is off by how far it predicts, beside two opponents that know no physics.

The factor of a row is its number of ranks over the largest that was fitted. *Same rate*: each rank
stays as fast as on that size. *Line*: images/s of a rank fall along a straight line in log₂ of the
ranks, by least squares through the fitted rows, two numbers as the predictor has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hpml.predict.published_predicted import Predicted, Table

FACTORS = (2, 4, 8, 16)  # the last one and more


@dataclass(frozen=True)
class Row:
    """A predicted row: its factor, and the relative errors without their signs."""

    factor: float
    model: float
    same_rate: float
    line: float
    inside: bool  # its interval of 90 in 100


@dataclass(frozen=True)
class Group:
    """Rows with a factor up to `factor`, and above the one before; medians of their errors, and the
    share that is `inside` their interval."""

    factor: int
    count: int
    model: float
    same_rate: float
    line: float
    inside: float

    @property
    def ahead(self) -> bool:
        """Whether the model is nearer than both opponents."""
        return self.model < min(self.same_rate, self.line)


def rows(tables: Iterable[Table]) -> list[Row]:
    """Every row that was not fitted."""
    return [row for table in tables for row in _rows(table)]


def groups(found: Sequence[Row]) -> list[Group]:
    """By factor, those that have rows."""
    made = []
    for number, factor in enumerate(FACTORS):
        above = FACTORS[number - 1] if number else 0
        last = factor == FACTORS[-1]
        some = [row for row in found if above < row.factor and (last or row.factor <= factor)]
        if some:
            made.append(
                Group(
                    factor,
                    len(some),
                    median(row.model for row in some),
                    median(row.same_rate for row in some),
                    median(row.line for row in some),
                    sum(row.inside for row in some) / len(some),
                )
            )
    return made


def as_table(found: Sequence[Group]) -> str:
    """A line for each group."""
    head = f"{'ranks, over the most fitted':28}{'rows':>5}{'model':>8}{'same rate':>11}{'line':>8}"
    lines = [f"{head}{'in interval':>13}"]
    for group in found:
        name = f"up to {group.factor} ×" if group.factor < FACTORS[-1] else f"over {FACTORS[-2]} ×"
        lines.append(
            f"{name:28}{group.count:5}{group.model:8.1%}{group.same_rate:11.1%}{group.line:8.1%}"
            f"{group.inside:13.0%}"
        )
    return "\n".join(lines)


def _rows(table: Table) -> list[Row]:
    fitted = [row for row in table.rows if row.fitted]
    most = max(row.row.ranks for row in fitted)
    return [
        Row(
            row.row.ranks / most,
            abs(row.error),
            abs(row.carried_on / row.published - 1),
            abs(_line(fitted, row.row.ranks) / row.published - 1),
            row.published in row.interval,
        )
        for row in table.test
    ]


def _line(fitted: Sequence[Predicted], ranks: int) -> float:
    """Images/s of `ranks` ranks on the line through the fitted rows."""
    logs = [np.log2(row.row.ranks) for row in fitted]
    each = [row.published / row.row.ranks for row in fitted]
    if len(fitted) == 1:
        return ranks * each[0]
    slope, start = np.polyfit(logs, each, 1)
    return float(ranks * max(0.0, start + slope * np.log2(ranks)))
