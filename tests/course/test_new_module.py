"""`./hpml course new 09 NAME` writes a module that builds, and takes exercises."""

import pytest

from hpml import cli
from hpml.course import schedule
from hpml.course.instructors import build, new_exercise, new_module
from hpml.course.schedule import Course
from hpml.errors import UserError


def test_a_new_module_is_built_and_then_an_exercise_of_it(
    unbuilt: Course, monkeypatch, capsys
) -> None:
    load = schedule.load
    monkeypatch.setattr(schedule, "load", lambda *path: load(*path) if path else unbuilt)
    with pytest.raises(SystemExit) as ended:
        cli.main(["course", "new", "9", "ring_roads"])
    assert ended.value.code == 0
    *written, then = capsys.readouterr().out.splitlines()
    assert then == "Its notebooks: ./hpml build 03 09 --keep-outputs"
    course = schedule.load(unbuilt.root / "course.toml")
    module = course.module("09")
    assert (module.title, module.exercises) == ("Ring roads", ())
    assert all((course.root / path).is_file() for path in written)
    assert build.build(course, [module]) == []
    new_exercise.create(course, module, "bypass")
    course = schedule.load(unbuilt.root / "course.toml")
    assert [exercise.id for exercise in course.module("09").exercises] == ["bypass"]


@pytest.mark.parametrize(
    ("number", "name", "says"),
    [
        ("02", "roads", "module '02': give it two digits, after 03"),
        ("123", "roads", "module '123': give it two digits"),
        ("04", "Roads", "a name is lower_case_words"),
        ("04", "rings", "module 'rings' is there already"),
        ("04", "bridges", "notebooks/04_bridges.py is there already"),
    ],
)
def test_what_cannot_be_a_module_is_refused_and_nothing_written(
    course: Course, number: str, name: str, says: str
) -> None:
    (course.root / "notebooks/04_bridges.py").touch()
    before = (course.root / "course.toml").read_text()
    with pytest.raises(UserError, match=says):
        new_module.create(course, number, name)
    assert (course.root / "course.toml").read_text() == before
    assert not (course.root / "src/hpml/modules/m04_bridges").exists()
