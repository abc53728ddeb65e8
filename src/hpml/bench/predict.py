"""The predictor against what was published, row by row."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from hpml.bench.table import machine_conditions
from hpml.predict import by_factor
from hpml.predict.published_predicted import MEDIAN, WORST, Table, predicted
from hpml.predict.scaling_misses import why_missed


@dataclass(frozen=True)
class Predicted:
    """All published tables, and why others cannot be predicted."""

    tables: Sequence[Table]
    left_out: dict[str, str]
    conditions: dict[str, str]

    def show(self, console: Console | None = None) -> None:
        """Every row, then each table's median and worst."""
        console = console or Console()

        def line(text: str) -> None:
            console.print(text, highlight=False, soft_wrap=True, markup=False)

        console.print(_rows(self.tables))
        console.print(_tables(self.tables))
        line(by_factor.as_table(self.by_factor()))
        for text in self.sentences():
            line(text)
        for name, why in self.left_out.items():
            line(f"not predicted: {name}: {why}")
        for name, value in self.conditions.items():
            line(f"{name}: {value}")

    def by_factor(self) -> list[by_factor.Group]:
        """Errors by how far beyond the fitted sizes a row is, beside two opponents."""
        return by_factor.groups(by_factor.rows(self.tables))

    def sentences(self) -> list[str]:
        """What came out, misses first."""
        missed = [table for table in self.tables if not table.met]
        rows = [row for table in self.tables for row in table.test]
        inside = sum(row.published in row.interval for row in rows)
        said = [
            f"missed ({MEDIAN:.0%} in the median, {WORST:.0%} in the worst row): {table.name}: "
            f"{table.median:.2%} and {table.worst:.2%}: {why_missed(table)}"
            for table in missed
        ]
        said.append(
            f"{len(self.tables) - len(missed)} of {len(self.tables)} tables are within "
            f"{MEDIAN:.0%} in the median and {WORST:.0%} in the worst row; over all "
            f"{len(rows)} predicted rows the median is {_median(rows):.1%}, and {inside} lie in "
            "their interval of 90 in 100"
        )
        carried = statistics.median(abs(row.carried_on / row.published - 1) for row in rows)
        better = sum(table.median < table.carried_on for table in self.tables)
        said.append(
            "beside it, each rank as fast as on the largest size that was fitted: "
            f"{carried:.1%} in the median; the model is nearer in {better} tables"
        )
        return said

    def write(self, path: Path) -> None:
        """As JSON: every row of every table."""
        content = {
            "title": "bench predict",
            "conditions": self.conditions,
            "sentences": self.sentences(),
            "left_out": self.left_out,
            "by_factor": [asdict(group) for group in self.by_factor()],
            "rows": [
                {
                    "table": table.name,
                    "where": row.row.where,
                    "ranks": row.row.ranks,
                    "fitted": row.fitted,
                    "published": row.published,
                    "predicted": row.predicted,
                    "error": row.error,
                    "interval": [row.interval.low, row.interval.high],
                }
                for table in self.tables
                for row in table.rows
            ],
        }
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(content, indent=2) + "\n")


def bench() -> Predicted:
    """Predict all tables."""
    conditions = machine_conditions()
    conditions["published"] = "images/s of all ranks; constants fitted on the first rows of a table"
    return Predicted(*predicted(), conditions)


def _rows(tables: Sequence[Table]) -> RichTable:
    names = ("table", "ranks", "row", "published", "predicted", "error")
    shown = _table("Published, and predicted from the first rows", names)
    for table in tables:
        for row in table.rows:
            shown.add_row(
                table.name,
                str(row.row.ranks),
                "fitted" if row.fitted else "predicted",
                f"{row.published:,.0f}",
                f"{row.predicted:,.0f}",
                f"{row.error:+.1%}",
            )
    return shown


def _tables(tables: Sequence[Table]) -> RichTable:
    title = f"Predicted rows (targets: median {MEDIAN:.0%}, worst {WORST:.0%}); constants"
    shown = _table(title, ("table", "rows", "median", "worst", "", "rate", "straggling"))
    for table in tables:
        constants = table.fitted.constants
        shown.add_row(
            table.name,
            str(len(table.test)),
            f"{table.median:.1%}",
            f"{table.worst:.1%}",
            "" if table.met else "missed",
            f"{constants.rate:.0%}",
            f"{constants.straggling:.1%}",
        )
    return shown


def _table(title: str, names: Sequence[str]) -> RichTable:
    shown = RichTable(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in names:
        shown.add_column(name, justify="left" if name == "table" else "right", no_wrap=True)
    return shown


def _median(rows: Sequence) -> float:
    return statistics.median(abs(row.error) for row in rows)
