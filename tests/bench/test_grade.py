"""./hpml bench grade, for real but short: one exercise, two submissions."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hpml.bench.instructors import grade
from hpml.cli.instructors import bench_grading_command
from hpml.errors import UserError


@pytest.mark.usefixtures("sandboxed")
def test_it_grades_the_same_files_with_one_worker_and_with_two(tmp_path):
    file = tmp_path / "grade.json"
    words = ["--people", "2", "--only", "process_group", "--json", str(file)]
    ended = CliRunner().invoke(bench_grading_command.app, ["grade", *words])
    assert ended.exit_code == 0, ended.output
    written = json.loads(file.read_text())
    alone, together = written["rows"]
    assert (alone["name"], alone["base"]) == ("./hpml grade --jobs 1", None)
    assert (together["name"], together["base"]) == ("./hpml grade --jobs 2", alone["name"])
    assert together["ratio"] == together["values"][0] / alone["values"][0] > 0
    assert "process_group: 10 points" in written["conditions"]["a submission"]
    assert "bubblewrap" in written["conditions"]["sandbox"]


def test_a_right_submission_that_loses_a_point_is_no_measurement():
    lost = SimpleNamespace(
        person="ada", earned=9, results=[SimpleNamespace(status="failed", headline="too slow")]
    )
    with pytest.raises(UserError, match="ada has 9 of 10 points: too slow"):
        grade.hold([lost], 10)
    grade.hold([lost], 9)
