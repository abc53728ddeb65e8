"""A long table of ratios as a grid: a line for each case, a column for each algorithm."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table as RichTable

from hpml.bench.table import Row, Table

WIDTH = 120  # columns, where the grid is written to a file


@dataclass(frozen=True)
class Cell:
    """A row of the table, and its time as text."""

    row: Row
    took: str


@dataclass(frozen=True)
class Grid(Table):
    """`cells` by line and by column; rows that are in no cell are shown below the grid.

    The JSON has all rows, as of any table.
    """

    cells: Mapping[str, Mapping[str, Cell]]

    def show(self, console: Console | None = None) -> None:
        """Print it: in each cell the time, and under it the median of its ratios."""
        console = console or Console()
        if not console.is_terminal:  # a file has no width
            console = Console(file=console.file, width=max(console.width, WIDTH))
        columns = list(dict.fromkeys(name for line in self.cells.values() for name in line))
        grid = RichTable(title=self.title, title_justify="left", show_lines=True)
        grid.add_column("", no_wrap=True)
        for name in columns:
            grid.add_column(name.replace("-", "-\n"), justify="right", no_wrap=True)
        for label, line in self.cells.items():
            grid.add_row(label, *(self._format(line.get(name)) for name in columns))
        console.print(grid)
        inside = {cell.row.name for line in self.cells.values() for cell in line.values()}
        below = [row for row in self.rows if row.name not in inside]
        Table("", below, self.conditions).show(console)

    def _format(self, cell: Cell | None) -> str:
        return f"{cell.took}\n{median(self.ratios(cell.row)):.2f} ×" if cell else ""
