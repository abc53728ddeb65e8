"""Marks in an nbgrader gradebook are those that nbgrader itself then shows and exports."""

import csv
import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.grading import gradebook
from hpml.grading.record import Record

ASSIGNMENT = "06_torch_distributed"


@contextmanager
def opened(path: Path) -> Iterator[Gradebook]:
    with Gradebook(f"sqlite:///{path}") as book:
        yield book


def exported(path: Path) -> dict[str, dict[str, str]]:
    """What `nbgrader export` makes of the gradebook, by student."""
    to = path.with_suffix(".csv")
    words = ["export", f"--db=sqlite:///{path}", "--to", str(to)]
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *words],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with to.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(None not in row and None not in row.values() for row in rows)
    return {row["student_id"]: row for row in rows if row["assignment"] == ASSIGNMENT}


@pytest.fixture(scope="session")
def empty(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook with nothing in it, which takes nbgrader a second to make."""
    path = tmp_path_factory.mktemp("gradebook") / "empty.db"
    gradebook.write([], course, path)
    return path


@pytest.fixture
def path(empty: Path, tmp_path: Path) -> Path:
    return shutil.copy(empty, tmp_path / "gradebook.db")


def grade(book: Gradebook, exercise: str, person: str = "ada"):
    return book.find_grade(f"check-{exercise}", ASSIGNMENT, ASSIGNMENT, person)


def test_nbgrader_exports_the_marks(
    record: Callable[..., Record], course: Course, tmp_path: Path
) -> None:
    path = tmp_path / "gradebook.db"
    class_ = [
        record("ada", {"ddp": "failed", "shard_sampler": "missing"}),
        record("bob", name='Müller, "Jo" =1', email="=cmd"),
    ]
    gradebook.write(class_, course, path)
    rows = exported(path)
    worth = str(float(course.module("06").points))
    assert [rows[who]["score"] for who in ("ada", "bob")] == ["33.0", "45.0"]
    assert {row["max_score"] for row in rows.values()} == {worth}
    ada, bob = rows["ada"], rows["bob"]
    assert (ada["first_name"], ada["last_name"]) == ("Ada", "Lovelace")
    assert (bob["first_name"], bob["last_name"]) == ("'Jo' =1", "Müller")
    assert (ada["email"], bob["email"]) == ("ada@example.org", "'=cmd")


def test_the_cells_are_those_of_the_exercise_notebook(
    record: Callable[..., Record], course: Course, path: Path
) -> None:
    gradebook.write([record()], course, path)
    with opened(path) as book:
        assert [assignment.name for assignment in book.assignments] == [ASSIGNMENT]
        notebook = book.find_notebook(ASSIGNMENT, ASSIGNMENT)
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
        answers = {cell.name for cell in notebook.solution_cells}
    exercises = course.module("06").exercises
    assert points == {f"check-{exercise.id}": exercise.points for exercise in exercises}
    assert answers == {f"answer-{exercise.id}" for exercise in exercises}


def test_other_cells_are_worth_nothing_where_core_exercises_alone_count(
    record: Callable[..., Record], course: Course, path: Path
) -> None:
    gradebook.write([record(core=True)], course, path)
    with opened(path) as book:
        notebook = book.find_notebook(ASSIGNMENT, ASSIGNMENT)
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    assert points == {
        f"check-{exercise.id}": exercise.points if exercise.core else 0
        for exercise in course.module("06").exercises
    }


@pytest.mark.parametrize("status", ["not gradable", "refused", "not counted"])
def test_what_has_no_mark_waits_for_a_person(
    record: Callable[..., Record], course: Course, path: Path, status: str
) -> None:
    gradebook.write([record(status={"ddp": status, "shard_sampler": "missing"})], course, path)
    with opened(path) as book:
        ungraded, missing = grade(book, "ddp"), grade(book, "shard_sampler")
        assert (ungraded.auto_score, ungraded.needs_manual_grade) == (None, True)
        assert (missing.auto_score, missing.needs_manual_grade) == (0.0, False)
        comments = [
            book.find_comment(f"answer-{name}", ASSIGNMENT, ASSIGNMENT, "ada").comment
            for name in ("process_group", "shard_sampler", "ddp")
        ]
    assert comments == [None, "No response.", gradebook.REMARKS[status]]


def test_formgrader_lists_the_marks(
    record: Callable[..., Record], course: Course, path: Path
) -> None:
    class_ = [record("ada", {"ddp": "failed"}), record("bob", {"ddp": "not gradable"})]
    every = {exercise.id for exercise in course.module("06").exercises}
    graded = {result.exercise for result in class_[0].results}
    gradebook.write(class_, course, path)
    with opened(path) as book:  # what its pages are filled from
        listed = {row["student"]: row for row in book.submission_dicts(ASSIGNMENT)}
        scores = {row["id"]: row["score"] for row in book.student_dicts()}
        (notebook,) = book.find_submission(ASSIGNMENT, "ada").notebooks
        waiting = {grade.name for grade in notebook.grades if grade.needs_manual_grade}
    assert (scores["ada"], listed["ada"]["score"]) == (43.0, 43.0)
    assert listed["bob"]["needs_manual_grade"]
    assert waiting == {f"check-{exercise}" for exercise in every - graded}


def test_done_again_it_updates(record: Callable[..., Record], course: Course, path: Path) -> None:
    gradebook.write([record("ada", {"ddp": "not gradable"}), record("bob")], course, path)
    gradebook.write([record("ada", {"ddp": "failed"}, name="", email="")], course, path)
    gradebook.write([record("ada", {"ddp": "failed"}, name="", email="")], course, path)
    with opened(path) as book:
        assert (grade(book, "ddp").auto_score, grade(book, "ddp").needs_manual_grade) == (
            18.0,
            False,
        )
        assert sorted(student.id for student in book.students) == ["ada", "bob"]
        assert book.find_student("ada").last_name == "Lovelace"
        assert len(book.assignment_submissions(ASSIGNMENT)) == 2
        graded = book.find_submission(ASSIGNMENT, "ada").notebooks[0].grades
        assert len(graded) == len(course.module("06").exercises)


def test_a_mark_given_by_hand_stands(
    record: Callable[..., Record], course: Course, path: Path
) -> None:
    gradebook.write([record(status={"ddp": "failed"})], course, path)
    with opened(path) as book:
        grade(book, "ddp").manual_score = 20.0
        book.db.commit()
    gradebook.write([record(status={"ddp": "failed"})], course, path)
    with opened(path) as book:
        assert (grade(book, "ddp").score, grade(book, "ddp").needs_manual_grade) == (20.0, False)
    gradebook.write([record(status={"ddp": "missing"})], course, path)
    with opened(path) as book:
        assert (grade(book, "ddp").score, grade(book, "ddp").needs_manual_grade) == (20.0, True)


def test_marks_of_an_unsafe_run_say_so(
    record: Callable[..., Record], course: Course, path: Path
) -> None:
    gradebook.write([record(unsafe=True)], course, path)
    with opened(path) as book:
        comment = book.find_comment("answer-ddp", ASSIGNMENT, ASSIGNMENT, "ada").comment
    assert comment == "UNSAFE: graded outside a sandbox"


def test_a_file_that_is_no_gradebook_is_left_as_it_is(
    record: Callable[..., Record], course: Course, tmp_path: Path
) -> None:
    path = tmp_path / "gradebook.db"
    path.write_bytes(b"not a database at all, " * 100)
    with pytest.raises(UserError, match=r"gradebook\.db: not a gradebook of nbgrader"):
        gradebook.write([record()], course, path)
    assert path.read_bytes() == b"not a database at all, " * 100


def test_a_gradebook_of_another_version_of_the_course_is_refused(
    record: Callable[..., Record], course: Course, path: Path
) -> None:
    gradebook.write([record()], course, path)
    with opened(path) as book:
        book.add_grade_cell("check-old", ASSIGNMENT, ASSIGNMENT, max_score=1, cell_type="code")
    before = path.read_bytes()
    with pytest.raises(UserError, match="Cannot add or remove cells"):
        gradebook.write([record()], course, path)
    assert path.read_bytes() == before


def test_a_submission_without_results_is_no_submission(
    record: Callable[..., Record], course: Course, path: Path
) -> None:
    only = dataclasses.replace(record("bob"), results=(), refused="bob.ipynb: a pipe")
    gradebook.write([record(), only], course, path)
    rows = exported(path)
    assert (rows["bob"]["timestamp"], rows["bob"]["score"]) == ("", "0.0")
    with opened(path) as book:
        assert [s.student.id for s in book.assignment_submissions(ASSIGNMENT)] == ["ada"]
