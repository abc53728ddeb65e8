"""The result of every benchmark: a table of ratios with its conditions, printed and as JSON."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import rich.box
from rich.console import Console
from rich.table import Table as RichTable

from hpml.machine.processor import processor


@dataclass(frozen=True)
class Row:
    """One thing measured: `values` in `unit`, one for each round.

    `base` names the row it is compared with; the rounds of both were taken side by side. `target`
    is what the ratio (or, without a base, the value) should be, in words.
    """

    name: str
    values: Sequence[float]
    unit: str
    base: str | None = None
    target: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True)
class Table:
    """Rows of measurements, and the conditions they were taken under."""

    title: str
    rows: Sequence[Row]
    conditions: Mapping[str, str]

    def ratios(self, row: Row) -> list[float]:
        """Row over its base, round by round; empty where it has no base.

        By round, because the machine's other load changes between rounds.
        """
        base = next((other for other in self.rows if other.name == row.base), None)
        if base is None:
            return []
        return [value / other for value, other in zip(row.values, base.values, strict=True)]

    def show(self, console: Console | None = None) -> None:
        """Print it: medians over the rounds, then lowest and highest ratio."""
        # A file has no width: as wide as most names need
        console = console or Console(width=None if sys.stdout.isatty() else 120)
        # Lines and spaces as few as that names and figures fit into 80 columns
        table = RichTable(
            title=self.title,
            title_justify="left",
            box=rich.box.SIMPLE,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        table.add_column("measured", overflow="fold")
        for name in ("median", "ratio", "range"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("compared with", overflow="fold")
        has_targets = any(row.target for row in self.rows)
        if has_targets:
            table.add_column("target")
        for row in self.rows:
            ratios = self.ratios(row)
            spread = ratios or list(row.values)
            # A ratio of 0.002 is not 0.00.
            digits = (2 if max(ratios) >= 0.02 else 4) if ratios else _digits(row.median)
            table.add_row(
                row.name,
                f"{row.median:.{_digits(row.median)}f} {row.unit}",
                f"{statistics.median(ratios):.{digits}f} ×" if ratios else "",
                f"{min(spread):.{digits}f} to {max(spread):.{digits}f}" if len(spread) > 1 else "",
                row.base or "",
                *((row.target,) if has_targets else ()),
            )
        console.print(table)
        for name, value in self.conditions.items():
            console.print(f"{name}: {value}", highlight=False, soft_wrap=True)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table as JSON, with every round's value."""
        rows: list[dict[str, Any]] = []
        for row in self.rows:
            ratios = self.ratios(row)
            rows.append(
                {
                    "name": row.name,
                    "unit": row.unit,
                    "values": list(row.values),
                    "median": row.median,
                    "base": row.base,
                    "ratios": ratios,
                    "ratio": statistics.median(ratios) if ratios else None,
                    "target": row.target,
                }
            )
        content = {"title": self.title, "conditions": dict(self.conditions), "rows": rows}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(content, indent=2) + "\n")


def machine_conditions() -> dict[str, str]:
    """The machine, its software, and its present load from other work."""
    import torch

    return {
        "machine": f"{processor()}, {len(os.sched_getaffinity(0))} cores, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB, {platform.system()} "
        f"{platform.release()}",
        "software": f"Python {platform.python_version()}, torch {torch.__version__}",
        "load before": f"{os.getloadavg()[0]:.1f} processes running on average in the last minute",
    }


def _digits(value: float) -> int:
    return 0 if isinstance(value, int) or abs(value) >= 100 else 2  # a count has no decimals
