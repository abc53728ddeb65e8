"""A course that is run with nbgrader's own commands, from the committed files to the marks.

Module 00 without `job_script`, which wants a SLURM.
"""

import os
import sysconfig
from pathlib import Path

import nbformat
import pytest

from hpml.course import schedule
from hpml.course.instructors.paired import keep_metadata, text_of
from hpml.grading import batch, intake
from hpml.grading.judging import Judge

from .nbgrader_course import NbgraderCourse

COURSE = schedule.load()
MODULE = COURSE.module("00")
NAME = MODULE.exercise_notebook.stem
GRADED = ("hello_ranks", "read_queue")

WRONG = {
    "hello_ranks": (
        "%%answer hello_ranks\nimport torch\nimport torch.distributed as dist\n\n\n"
        "def hello(number):\n    total = torch.tensor(number)\n"
        "    dist.all_reduce(total, op=dist.ReduceOp.MAX)\n    return total.item()\n"
    )
}


def solved(**instead: str) -> nbformat.NotebookNode:
    """The solution notebook, with other answers to some exercises."""
    notebook = nbformat.read(COURSE.root / MODULE.solution, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook.cells = [cell for cell in notebook.cells if "job_script" not in cell.id]
    for exercise, source in instead.items():
        (cell,) = [cell for cell in notebook.cells if cell.id == f"answer-{exercise}"]
        cell.source = source
    return notebook


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    """A course in which the exercises were handed out, collected and graded by nbgrader."""
    school = NbgraderCourse(tmp_path_factory.mktemp("nbgrader") / "course")
    school.write(solved(), "source", NAME, f"{NAME}.ipynb")
    school.run("generate_assignment", NAME)
    for person, notebook in (("right", solved()), ("half", solved(**WRONG))):
        school.write(notebook, "submitted", person, NAME, f"{NAME}.ipynb")
    school.run("autograde", NAME)
    return school


def test_the_committed_exercises_are_what_nbgrader_makes_of_the_solutions(tmp_path):
    """Of all modules in one assignment: starting nbgrader is what takes long."""
    school = NbgraderCourse(tmp_path / "course")
    for module in COURSE.modules:
        notebook = nbformat.read(COURSE.root / module.solution, as_version=4)
        school.write(notebook, "source", "day", module.exercise_notebook.name)
    school.run("generate_assignment", "day")
    for module in COURSE.modules:
        released = school.folder / "release" / "day" / module.exercise_notebook.name
        notebook = nbformat.read(released, as_version=4)
        keep_metadata(notebook)
        made = text_of(notebook)
        assert made == (COURSE.root / module.exercise_notebook).read_text(), module.name


def test_nbgrader_validates_what_is_solved_and_not_what_was_handed_out(school):
    stub = Path("release", NAME, f"{NAME}.ipynb")
    ended = school.run("validate", str(stub))
    assert "VALIDATION FAILED ON 2 CELL(S)!" in ended.stdout
    assert "hello_ranks: 0 of 2 points" in ended.stdout
    ended = school.run("validate", f"submitted/right/{NAME}/{NAME}.ipynb")
    assert "Success! Your notebook passes all the tests." in ended.stdout


def marks_by_cell(school, monkeypatch):
    """By person and graded cell: the highest possible score, and what autograde gave."""
    from nbgrader.api import Gradebook

    scripts = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    monkeypatch.setenv("PATH", scripts)  # alembic is called by its name
    with Gradebook(f"sqlite:///{school.folder / 'gradebook.db'}") as gradebook:
        return {
            submission.student.id: {
                grade.cell.name: (grade.max_score, grade.auto_score)
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in gradebook.assignment_submissions(NAME)
        }


def test_the_gradebook_has_the_ids_and_points_of_the_exercises(school, monkeypatch):
    for cells in marks_by_cell(school, monkeypatch).values():
        most = {cell: most for cell, (most, _) in cells.items()}
        assert most == {f"check-{e.id}": e.points for e in MODULE.exercises if e.id in GRADED}


@pytest.mark.usefixtures("sandboxed")
def test_the_grader_gives_the_same_marks_to_the_same_files(school, tmp_path, monkeypatch):
    assert school.marks() == {"right": (7, 7), "half": (5, 7)}
    submissions = intake.collect([school.submitted], tmp_path)
    judge = Judge(COURSE, GRADED)
    records = batch.grade(submissions, judge, tmp_path / "out", _Silent())
    assert {record.person: (record.earned, record.points) for record in records} == school.marks()
    assert {
        record.person: {f"check-{r.exercise}": (r.points, r.earned) for r in record.results}
        for record in records
    } == marks_by_cell(school, monkeypatch)


class _Silent:
    def started(self, total, kept):
        pass

    def graded(self, record, done, total, elapsed):
        assert not record.notes
