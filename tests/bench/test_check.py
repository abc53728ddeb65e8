"""./hpml bench check, for real but short: one exercise, one round."""

import json

import pytest
from typer.testing import CliRunner

from hpml.bench import check
from hpml.cli import bench_command
from hpml.errors import UserError


def test_it_measures_torchrun_launch_and_checks_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(
        check,
        "_solutions",
        lambda kept=check._solutions: {
            exercise: source for exercise, source in kept().items() if exercise == "hello_ranks"
        },
    )
    file = tmp_path / "check.json"
    ended = CliRunner().invoke(bench_command.app, ["check", "--rounds", "1", "--json", str(file)])
    assert ended.exit_code == 0, ended.output
    written = json.loads(file.read_text())
    names = [row["name"] for row in written["rows"]]
    assert names == [
        "torchrun: one all_reduce, 4 ranks",
        "launch: one all_reduce, 4 ranks",
        "check hello_ranks with four ranks",
        "check hello_ranks whole, with 1 to 4 ranks",
    ]
    torchrun, *others = written["rows"]
    assert torchrun["ratio"] is None
    assert all(row["ratio"] == row["values"][0] / torchrun["values"][0] for row in others)
    assert "machine" in written["conditions"]


def test_a_solution_that_fails_is_no_measurement():
    with pytest.raises(UserError, match="the solution of hello_ranks fails"):
        check._check("hello_ranks", "def hello(number):\n    return None\n", (2,))
