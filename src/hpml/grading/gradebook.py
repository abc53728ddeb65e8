"""Marks in an nbgrader gradebook, for its formgrader and its exporters.

An assignment is a module, named like its exercise notebook: 06_torch_distributed. nbgrader's own
SaveCells adds its cells, as in `nbgrader generate_assignment`, so that a course can continue with
nbgrader.

nbgrader counts a cell without a score as 0 points. A cell without a mark (not gradable, refused,
not counted) has no score and is marked for manual grading; formgrader lists it as such. Where the
core exercises alone are graded, the cells of the others are worth no points.
"""

import logging
import os
import sqlite3
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat

from hpml.course.schedule import Course, Module
from hpml.errors import UserError
from hpml.grading.marks import UNSAFE, defused
from hpml.grading.record import Record, Result, write_whole

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, Student

REMARKS = {
    "missing": "No response.",  # nbgrader's own words
    "refused": "Refused: a file could not be read. The page of feedback has the reason.",
    "not counted": "Found, but not counted. The page of feedback has the reason.",
    "not gradable": "Could not be graded, which is not the answer's fault.",
}


def write(records: Sequence[Record], course: Course, path: Path) -> None:
    """Write the marks of `records` to the gradebook `path`, which is created if missing.

    A second call updates it. A mark given by hand in formgrader is kept, and flagged for review
    where the automatic one changed. Raises UserError if the file is not a gradebook, or holds other
    cells for a module than its exercise notebook.
    """
    modules = [module for module in course.modules if _graded(records, module)]
    with (
        tempfile.TemporaryDirectory(prefix="hpml-gradebook-") as folder,
        _scripts_on_path(),
        _not_synchronised(),
    ):
        draft = Path(folder) / "gradebook.db"
        if path.exists():
            _copy(path, draft)
        for module in modules:
            core = any(record.core for record in records)
            _put_cells(course, module, f"sqlite:///{draft}", core)
        with _opened(draft) as gradebook:
            for record in records:
                _put_student(gradebook, record)
                for module in modules:
                    results = [r for r in record.results if r.module == module.id]
                    if results:
                        _put_marks(gradebook, module, record, results)
            gradebook.db.commit()
        write_whole(path, draft.read_bytes())


def _graded(records: Iterable[Record], module: Module) -> bool:
    return any(result.module == module.id for record in records for result in record.results)


def _copy(path: Path, draft: Path) -> None:
    """A consistent copy, even while formgrader writes to the original."""
    try:
        with closing(sqlite3.connect(path)) as there, closing(sqlite3.connect(draft)) as here:
            there.backup(here)
    except sqlite3.Error as error:
        raise UserError(f"{path}: not a gradebook of nbgrader ({error}): move it away") from None


@contextmanager
def _scripts_on_path() -> Iterator[None]:
    """nbgrader calls `alembic` by its name, which is found only where the environment is active."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextmanager
def _not_synchronised() -> Iterator[None]:
    """Without fsync: nbgrader commits several times per person, and the draft may be lost."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def quick(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", quick)
    try:
        yield
    finally:
        event.remove(Engine, "connect", quick)


@contextmanager
def _opened(path: Path) -> "Iterator[Gradebook]":
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{path}") as gradebook:
        yield gradebook


def _put_cells(course: Course, module: Module, url: str, core: bool) -> None:
    from nbgrader.api import Gradebook
    from nbgrader.preprocessors import SaveCells

    name = module.exercise_notebook.stem
    notebook = nbformat.read(course.root / module.exercise_notebook, as_version=4)
    if core:
        more = {f"check-{entry.id}" for entry in module.exercises if not entry.core}
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") in more:
                cell.metadata.nbgrader.points = 0
    with Gradebook(url) as gradebook:
        gradebook.update_or_create_assignment(name)
    save = SaveCells()
    save.log.setLevel(logging.WARNING)
    try:
        about = {"notebook": name, "assignment": name, "db_url": url}
        save.preprocess(notebook, {"nbgrader": about})
    except RuntimeError as error:  # cells differ, and there are submissions
        raise UserError(f"{name}: {error}: move gradebook.db away, it is made anew") from None


def _put_student(gradebook: "Gradebook", record: Record) -> "Student":
    """The student, updated with what the record has; other fields are unchanged."""
    first, last = _names(record.name)
    known = {"first_name": first, "last_name": last, "email": _cell(record.email)}
    return gradebook.update_or_create_student(
        record.person, **{key: value for key, value in known.items() if value}
    )


def _put_marks(
    gradebook: "Gradebook", module: Module, record: Record, results: Iterable[Result]
) -> None:
    from nbgrader.api import Comment, Grade

    with gradebook.db.no_autoflush:  # SQLAlchemy warns of each object that nbgrader adds late
        submission = gradebook.update_or_create_submission(
            module.exercise_notebook.stem, record.person
        )
    by_id = {result.exercise: result for result in results}
    for notebook in submission.notebooks:
        grades = {grade.cell_id: grade for grade in notebook.grades}
        for cell in notebook.notebook.grade_cells:
            result = by_id.get(cell.name.removeprefix("check-"))
            if result is not None:
                grade = grades.get(cell.id) or Grade(cell_id=cell.id, notebook=notebook)
                _put_mark(grade, result)
        comments = {comment.cell_id: comment for comment in notebook.comments}
        for cell in notebook.notebook.solution_cells:
            result = by_id.get(cell.name.removeprefix("answer-"))
            if result is not None:
                comment = comments.get(cell.id) or Comment(cell_id=cell.id, notebook=notebook)
                comment.auto_comment = _comment(record, result)


def _put_mark(grade: Any, result: Result) -> None:
    """As nbgrader's SaveAutoGrades: a mark given by hand is kept."""
    score = float(result.earned) if result.has_mark else None
    if grade.manual_score is None:
        grade.needs_manual_grade = score is None
    elif grade.auto_score != score:
        grade.needs_manual_grade = True
    grade.auto_score = score


def _comment(record: Record, result: Result) -> str | None:
    """Fixed texts and the instructor's remark, no text of the answer: nbgrader renders comments as
    Markdown with HTML."""
    remarks = [UNSAFE] if record.unsafe else []
    if remark := REMARKS.get(result.status):
        remarks.append(remark)
    if result.remark:
        remarks.append(escape(result.remark))
    return " ".join(remarks) or None


def _names(name: str) -> tuple[str, str]:
    """First and last name, of "Jo Doe" or "Doe, Jo"."""
    last, comma, first = name.partition(",")
    if not comma:
        first, _, last = name.strip().rpartition(" ")
    return _cell(first.strip()), _cell(last.strip())


def _cell(text: str) -> str:
    """`text` made safe for nbgrader's CSV exporter, which does not quote."""
    return defused(text.replace(",", " ").replace('"', "'"))[:128]
