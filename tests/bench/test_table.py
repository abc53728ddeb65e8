"""Tables of ratios: round by round, with their conditions, on screen and as JSON."""

import io
import json

import pytest
from rich.console import Console

from hpml.bench.table import Row, Table, machine_conditions

ROWS = [
    Row("one", [100.0, 50.0, 200.0], "images/s"),
    Row("two", [180.0, 95.0, 300.0], "images/s", base="one", target="at least 1.8"),
]
TABLE = Table("bench example", ROWS, {"machine": "a small one"})


def test_ratios_are_taken_within_a_round():
    assert TABLE.ratios(ROWS[1]) == pytest.approx([1.8, 1.9, 1.5])
    assert TABLE.ratios(ROWS[0]) == []


def test_the_table_shows_medians_ratios_spread_target_and_conditions():
    screen = io.StringIO()
    TABLE.show(Console(file=screen, width=140))
    text = screen.getvalue()
    for part in ("bench example", "180 images/s", "1.80 ×", "1.50 to 1.90", "at least 1.8"):
        assert part in text
    assert "machine: a small one" in text


def test_the_json_has_every_round(tmp_path):
    TABLE.write(tmp_path / "new" / "table.json")
    content = json.loads((tmp_path / "new" / "table.json").read_text())
    assert content["conditions"] == {"machine": "a small one"}
    assert content["rows"][1]["values"] == [180.0, 95.0, 300.0]
    assert content["rows"][1]["ratio"] == pytest.approx(1.8)
    assert content["rows"][0]["ratio"] is None


def test_conditions_name_machine_and_software():
    conditions = machine_conditions()
    assert "cores" in conditions["machine"]
    assert "torch" in conditions["software"]
