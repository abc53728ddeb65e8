"""./hpml bench grade, for real but short: one exercise, one submission, a small class."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hpml.bench import grade, made_up
from hpml.cli import bench_grading_command
from hpml.course import schedule
from hpml.errors import UserError

needs_sandbox = pytest.mark.usefixtures("sandboxed")


@needs_sandbox
def test_it_grades_the_same_files_with_nbgrader_and_with_more_and_more_workers(tmp_path):
    file = tmp_path / "grade.json"
    words = ["--people", "2", "--class", "0", "--only", "process_group", "--json", str(file)]
    ended = CliRunner().invoke(bench_grading_command.app, ["grade", *words])
    assert ended.exit_code == 0, ended.output
    written = json.loads(file.read_text())
    first, *others = written["rows"]
    assert (first["name"], first["base"]) == ("nbgrader autograde", None)
    names = [row["name"] for row in others]
    assert names[:2] == ["./hpml grade --jobs 1", "./hpml grade --jobs 2"]
    assert names[-1].startswith("an array of two")
    assert all(row["ratio"] == row["values"][0] / first["values"][0] for row in others)
    assert "process_group: 10 points" in written["conditions"]["a submission"]
    assert "bubblewrap" in written["conditions"]["sandbox"]


@needs_sandbox
def test_a_small_class_is_graded_as_its_people_deserve(tmp_path):
    rows, made_of = grade._class(12, schedule.load(), 2, tmp_path, print)
    by_name = {row.name.removeprefix("a class of 12: "): row for row in rows}
    assert "4 right, 4 wrong, 2 hostile, 1 empty, 1 broken" in made_of
    for what in ("could not be graded", "more points than earned", "fewer points than earned"):
        assert list(by_name[what].values) == [0], what
    memory = [row.values[0] for name, row in by_name.items() if "memory" in name]
    assert len(memory) == 4
    assert all(100 < mib < 10_000 for mib in memory)


def test_a_right_submission_that_loses_a_point_is_no_measurement():
    lost = SimpleNamespace(
        person="ada", earned=9, results=[SimpleNamespace(status="failed", headline="too slow")]
    )
    with pytest.raises(UserError, match="ada has 9 of 10 points: too slow"):
        grade._hold([lost], 10)
    grade._hold([lost], 9)


def test_people_who_get_more_or_less_than_they_earned_are_named():
    people = [
        made_up.Person("right", "right", "", 5, 5),
        made_up.Person("wrong", "wrong", "", 0, 4),
        made_up.Person("lost", "hostile", ""),
    ]

    def records(*earned):
        return [
            SimpleNamespace(person=p.name, earned=e, complete=e is not None)
            for p, e in zip(people, earned, strict=True)
        ]

    assert not any(grade.verdicts(people, records(5, 4, 0)).values())
    assert grade.verdicts(people, records(4, 5, 1)) == {
        "could not be graded": [],
        "more points than earned": ["wrong", "lost"],
        "fewer points than earned": ["right"],
    }


def test_memory_is_kept_by_quarter_of_the_batch(monkeypatch):
    held = iter([10, 30, 20, 40, 50])
    monkeypatch.setattr(grade, "_memory", lambda: next(held))
    watch = grade._Watch()
    watch.look()  # before there is anything to grade: not looked at
    watch.started(8, 0)
    for done in (0, 1, 2, 7, 8):
        watch.done = done
        watch.look()
    assert watch.peaks == [30, 20, 0, 50]
