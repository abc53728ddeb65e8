"""Progress survives: another process at the same moment, a broken file, a worse try."""

import json
import multiprocessing
from pathlib import Path

import pytest

from hpml.checks.verdict import ClaimResult, Verdict
from hpml.course import progress
from hpml.course.schedule import Course, Exercise, Module

HINTS = {"start": "s", "sum": "a", "order": "b", "unused": "c"}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPML_HOME", str(tmp_path))
    return tmp_path


def verdict(exercise: str = "ring", status: str = "failed", *failed: str) -> Verdict:
    good = ClaimResult("it runs", True, 2)
    bad = tuple(ClaimResult(f"not {key}", False, 3, "m", "h", key) for key in failed)
    return Verdict(exercise, exercise.title(), status, (good, *bad), "", 0)


def test_nothing_done_is_empty() -> None:
    assert progress.read() == {}


def test_the_best_try_counts() -> None:
    progress.record(verdict("ring", "failed", "sum"))
    assert progress.read()["ring"]["passed"] is False
    progress.record(verdict("ring", "passed"))
    progress.record(verdict("ring", "failed", "sum", "order", "sum"))
    entry = progress.read()["ring"]
    assert (entry["passed"], entry["earned"], entry["points"]) == (True, 2, 11)
    assert entry["failed_hints"] == ["sum", "order"]


def course() -> Course:
    """Two modules: ring is core and tree is more, mesh is core."""

    def module(name: str, *exercises: Exercise) -> Module:
        return Module(name, "name", "Rings", "09:00", 45, "?", exercises, ())

    def exercise(name: str, minutes: int, core: bool) -> Exercise:
        return Exercise(name, minutes, core, Path(f"{name}.py"))

    first = module("03", exercise("tree", 10, False), exercise("ring", 20, True))
    return Course("", "", (first, module("04", exercise("mesh", 15, True))), Path())


def test_the_core_path_names_the_next_exercise_of_it() -> None:
    assert progress.core_path(course()) == (
        "Core path: 0 of 2 exercises passed, next: ring (20 min)."
    )
    progress.record(verdict("tree", "passed"))
    progress.record(verdict("ring", "failed", "sum"))
    assert "0 of 2 exercises passed, next: ring" in progress.core_path(course())
    progress.record(verdict("ring", "passed"))
    assert "1 of 2 exercises passed, next: mesh (15 min)" in progress.core_path(course())
    progress.record(verdict("mesh", "passed"))
    assert progress.core_path(course()) == "Core path: 2 of 2 exercises passed. All else is more."


def test_who_passes_the_last_core_exercise_of_a_module_is_told_so() -> None:
    assert progress.milestone(course(), "ring") == ""
    progress.record(verdict("ring", "passed"))
    assert progress.milestone(course(), "ring") == "The core path of module 03, Rings, is done."
    assert progress.milestone(course(), "tree") == ""


def test_a_pass_is_followed_by_what_is_done_and_what_is_next() -> None:
    progress.record(verdict("tree", "passed"))
    assert progress.standing(course(), "tree") == (
        "1 of 3 done (core 0 of 2); next: ring (core, 20 min)"
    )
    progress.record(verdict("ring", "passed"))
    assert progress.standing(course(), "ring") == (
        "2 of 3 done (core 1 of 2); next: mesh (core, 15 min), in exercises/04_name.ipynb"
    )
    progress.record(verdict("mesh", "passed"))
    assert progress.standing(course(), "mesh") == "3 of 3 done (core 2 of 2)."


def test_what_comes_next_is_of_the_same_module_while_there_is_any() -> None:
    following = progress.next_in_module(course(), "ring")
    assert following is not None
    assert following.id == "tree"
    progress.record(verdict("ring", "passed"))
    assert progress.standing(course(), "ring").endswith("; next: tree (more, 10 min)")
    progress.record(verdict("tree", "passed"))
    assert progress.next_in_module(course(), "ring") is None


def test_our_own_fault_is_not_held_against_anybody() -> None:
    progress.record(verdict("ring", "not gradable", "sum"))
    assert progress.read() == {}


def test_hints_start_with_the_start_and_go_on_with_what_failed() -> None:
    progress.record(verdict("ring", "failed", "sum", "order"))
    keys = [progress.next_hint("ring", HINTS) for _ in range(5)]
    assert keys == [("start", 2), ("sum", 1), ("order", 0), None, ("start", 2)]


def test_hints_before_any_check_are_the_start_only() -> None:
    assert [progress.next_hint("ring", HINTS) for _ in range(2)] == [("start", 0), None]


def test_after_what_failed_comes_how_to_go_on() -> None:
    progress.record(verdict("ring", "failed", "sum"))
    hints = HINTS | {"second": "2", "nearly": "3"}
    keys = [progress.next_hint("ring", hints) for _ in range(5)]
    assert keys == [("start", 3), ("sum", 2), ("second", 1), ("nearly", 0), None]


def test_a_hint_that_no_longer_exists_is_passed_over() -> None:
    progress.record(verdict("ring", "failed", "removed"))
    assert [progress.next_hint("ring", HINTS) for _ in range(2)] == [("start", 0), None]


def test_a_file_of_before_the_answers_is_read(own_home: Path) -> None:
    progress.record(verdict("ring", "passed"))
    kept = json.loads((own_home / "progress.json").read_text())
    del kept["exercises"]["ring"]["hints_ended"], kept["exercises"]["ring"]["answer_first"]
    (own_home / "progress.json").write_text(json.dumps(kept))
    assert progress.read()["ring"]["passed"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"exercises": {"ring": 3}}', "\x00"])
def test_an_unreadable_file_is_put_aside(own_home: Path, content: str) -> None:
    (own_home / "progress.json").write_text(content)
    progress.record(verdict("ring", "passed"))
    assert progress.read()["ring"]["passed"]
    assert (own_home / "progress.unreadable.json").read_text() == content


def record_one(name: str) -> None:
    progress.record(verdict(name, "passed"))


def test_processes_that_record_at_once_lose_nothing(own_home: Path) -> None:
    names = [f"exercise_{number}" for number in range(24)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map_async(record_one, names, chunksize=1).get(timeout=60)
    assert sorted(progress.read()) == sorted(names)
    assert json.loads((own_home / "progress.json").read_text())["version"] == 1
    assert sorted(path.name for path in own_home.iterdir()) == ["progress.json", "progress.lock"]
