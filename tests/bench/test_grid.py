"""A long table is shown as a grid, and written like any other."""

import io
import json

from rich.console import Console

from hpml.bench.grid import Cell, Grid
from hpml.bench.table import Row


def test_cells_are_in_the_grid_and_other_rows_below_it(tmp_path):
    bound = Row("bound", [10.0, 10.0], "Mbit/s")
    ring = Row("small: ring", [5.0, 6.0], "Mbit/s", "bound")
    tree = Row("large: tree", [9.0, 9.0], "Mbit/s", "bound")
    cells = {"small": {"ring": Cell(ring, "3 ms")}, "large": {"halving-tree": Cell(tree, "4 s")}}
    table = Grid("Title", [bound, ring, tree], {"rounds": "2"}, cells)
    console = Console(file=io.StringIO(), width=100)
    table.show(console)
    printed = console.file.getvalue()
    assert "3 ms" in printed
    assert "0.55 ×" in printed
    assert "0.90 ×" in printed
    assert "10.00 Mbit/s" in printed
    assert "small: ring" not in printed
    assert "rounds: 2" in printed
    table.write(tmp_path / "table.json")
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["bound", "small: ring", "large: tree"]
