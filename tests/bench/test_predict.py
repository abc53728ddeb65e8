"""./hpml bench predict: every row is shown, and misses in full."""

import io
import json

import pytest
from rich.console import Console

from hpml import cli
from hpml.bench import predict
from hpml.predict.published_predicted import predict_table

NAMES = ("azure-v100-resnet50-tcp", "daint-resnet50-mpi")
TABLES = [predict_table(name) for name in NAMES]


def test_every_row_is_shown_and_misses_have_a_line():
    result = predict.Predicted(TABLES, {"other": "a reason"}, {"machine": "this"})
    console = Console(file=io.StringIO(), width=150)
    result.show(console)
    shown = console.file.getvalue()
    for table in TABLES:
        for row in table.rows:
            kind = "fitted" if row.fitted else "predicted"
            cells = [table.name, str(row.row.ranks), kind, f"{row.published:,.0f}"]
            cells += [f"{row.predicted:,.0f}", f"{row.error:+.1%}"]
            assert cells in [line.split() for line in shown.splitlines()]
    for table in TABLES:
        assert (f"row): {table.name}:" in shown) == (not table.met)
    assert "not predicted: other: a reason" in shown
    assert "machine: this" in shown


def test_the_command_writes_every_row(tmp_path, capsys):
    file = tmp_path / "predict.json"
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "predict", "--json", str(file)])
    assert ended.value.code == 0
    content = json.loads(file.read_text())
    named = [row for row in content["rows"] if row["table"] == NAMES[0]]
    assert [row["ranks"] for row in named] == [row.row.ranks for row in TABLES[0].rows]
    shown = " ".join(capsys.readouterr().out.split())
    assert content["sentences"][-1] in shown
