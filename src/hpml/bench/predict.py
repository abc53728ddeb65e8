"""The predictor against what was published, row by row, and against measured steps on links."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from hpml.bench import predict_links
from hpml.bench.predict_links import Measured
from hpml.bench.table import machine_conditions
from hpml.predict.published_foretold import MEDIAN, WORST, Table, foretold
from hpml.predict.scaling_misses import why_missed

LINKS = 0.15  # what the median over links is held to


@dataclass(frozen=True)
class Predicted:
    """All published tables, why others cannot be foretold, and steps on links (None: not asked)."""

    tables: Sequence[Table]
    left_out: dict[str, str]
    links: Sequence[Measured] | None
    conditions: dict[str, str]

    def show(self, console: Console | None = None) -> None:
        """Every row, then each table's median and worst, then the links."""
        console = console or Console()

        def line(text: str) -> None:
            console.print(text, highlight=False, soft_wrap=True, markup=False)

        console.print(_rows(self.tables))
        console.print(_tables(self.tables))
        for text in self.sentences():
            line(text)
        for name, why in self.left_out.items():
            line(f"not foretold: {name}: {why}")
        for one in self.links or ():
            line(str(one))
        for name, value in self.conditions.items():
            line(f"{name}: {value}")

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
            f"{len(rows)} foretold rows the median is {_median(rows):.1%}, and {inside} lie in "
            "their interval of 90 in 100"
        )
        carried = statistics.median(abs(row.carried_on / row.published - 1) for row in rows)
        better = sum(table.median < table.carried_on for table in self.tables)
        said.append(
            "beside it, each rank as fast as on the largest size that was fitted: "
            f"{carried:.1%} in the median; the model is nearer in {better} tables"
        )
        if self.links:
            shown = [one for one in self.links if one.shows]
            every = statistics.median(abs(one.error) for one in self.links)
            said.append(
                f"links: {every:.1%} in the median of {len(self.links)} steps (target {LINKS:.0%})"
            )
            if shown:
                median = statistics.median(abs(one.error) for one in shown)
                said.append(
                    f"links: {median:.1%} in the median of the {len(shown)} steps in which "
                    "communication shows"
                )
        return said

    def write(self, path: Path) -> None:
        """As JSON: every row of every table, and every step on links."""
        content = {
            "title": "bench predict",
            "conditions": self.conditions,
            "sentences": self.sentences(),
            "left_out": self.left_out,
            "rows": [
                {
                    "table": table.name,
                    "where": row.row.where,
                    "ranks": row.row.ranks,
                    "fitted": row.fitted,
                    "published": row.published,
                    "foretold": row.foretold,
                    "error": row.error,
                    "interval": [row.interval.low, row.interval.high],
                }
                for table in self.tables
                for row in table.rows
            ],
            "links": [
                {
                    "model": one.model,
                    "rate": one.rate,
                    "ranks": one.foretold.ranks,
                    "seconds": one.seconds,
                    "foretold": one.foretold.step.seconds,
                    "error": one.error,
                }
                for one in self.links or ()
            ],
        }
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(content, indent=2) + "\n")


def bench(links: bool = True, report: Callable[[str], None] = print) -> Predicted:
    """Foretell all tables, and with `links` measure steps on emulated ones; `report` gets a line
    for each rate.

    Raises UserError where this machine cannot emulate a network.
    """
    conditions = machine_conditions()
    conditions["published"] = "images/s of all ranks; constants fitted on the first rows of a table"
    if links:
        conditions["links"] = (
            f"layers of {' and '.join(predict_links.MODELS)} with a part of their bytes; waits in "
            "place of compute; quickest step; nothing fitted: α and β of a ping-pong"
        )
    measured = predict_links.measure(report=report) if links else None
    tables, left_out = foretold()
    return Predicted(tables, left_out, measured, conditions)


def _rows(tables: Sequence[Table]) -> RichTable:
    names = ("table", "ranks", "row", "published", "foretold", "error")
    shown = _table("Published, and foretold from the first rows", names)
    for table in tables:
        for row in table.rows:
            shown.add_row(
                table.name,
                str(row.row.ranks),
                "fitted" if row.fitted else "foretold",
                f"{row.published:,.0f}",
                f"{row.foretold:,.0f}",
                f"{row.error:+.1%}",
            )
    return shown


def _tables(tables: Sequence[Table]) -> RichTable:
    title = f"Foretold rows (targets: median {MEDIAN:.0%}, worst {WORST:.0%}); constants"
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
