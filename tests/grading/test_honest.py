"""Everybody who is right gets everything: the course's solutions, and unusual right answers."""

from pathlib import Path

import nbformat
import pytest

from hpml.bench.instructors.honest import Honest, read_all
from hpml.bench.instructors.honest import in_turn as as_submissions
from hpml.checks import find
from hpml.checks.plays import play_once
from hpml.checks.registry import ids
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.grading.grade import Options, grade
from hpml.grading.record import Result

from ..suite.import_graph import check_file

COURSE = schedule.load()
# Seconds are measured for some claims. Where the machine is too busy for that, nobody loses points.
BUSY = "the machine is too busy"
ALL = read_all()
GRADER = ["src/hpml/grading/grade.py"]
GRADED = tuple(exercise for exercise in ids() if not find(exercise).submits)


def solutions() -> list[Honest]:
    """The course's own answers."""
    return [
        Honest(f"{exercise}, the solution", exercise, "", wrong_answers.solution(COURSE, exercise))
        for exercise in GRADED
    ]


def hand_in(right: list[Honest], folder: Path) -> dict[tuple[str, str], str]:
    """Write submissions into `folder`, each with at most one answer to an exercise.

    Returns who wrote each answer, by person and exercise.
    """
    folder.mkdir()
    written = {}
    for number, submission in enumerate(as_submissions(right), 1):
        written |= {(f"person{number}", one.exercise): one.name for one in submission}
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(one.source) for one in submission]
        nbformat.write(notebook, folder / f"person{number}.ipynb")
    return written


def lost(result: Result) -> list[str]:
    """What an answer has lost points for, in words."""
    claims = [
        f"{claim.name}: {claim.message}"
        for claim in result.claims
        if not claim.passed and not (not claim.judged and claim.message.startswith(BUSY))
    ]
    if claims or not result.claims:
        return [result.headline, *claims]
    return []


class Listener:
    not_graded: tuple[str, ...] = ()

    def started(self, total: int, kept: int) -> None:
        pass

    def graded(self, *_: object) -> None:
        pass

    def left_out(self, exercises: tuple[str, ...]) -> None:
        self.not_graded = exercises


def test_every_exercise_is_answered_by_somebody_unusual():
    assert {honest.exercise for honest in ALL} == set(ids())
    assert len(ALL) >= 40


@pytest.mark.timeout(2400)  # where all are new; 600 s is for one thing
@pytest.mark.usefixtures("sandboxed")
@pytest.mark.measures
def test_the_grader_gives_full_marks_to_solutions_and_to_unusual_right_answers(
    tmp_path, in_turn, key_of
):
    right = [one for one in (*solutions(), *ALL) if one.exercise in GRADED]
    keys = {one.name: key_of([*GRADER, check_file(one.exercise)], one.source) for one in right}
    chosen = in_turn("honest answers", keys)
    written = hand_in([one for one in right if one.name in chosen], tmp_path / "class")
    # Two at a time, which is the harder of the two
    options = Options([tmp_path / "class"], jobs=2)
    records = grade(options, COURSE, tmp_path / "out", listener := Listener())
    # What takes a SLURM, which no sandbox has, is left out of the modules that have their turn
    played = {exercise for _, exercise in written}
    modules = [[each.id for each in module.exercises] for module in COURSE.modules]
    graded = [each for module in modules if played & set(module) for each in module]
    assert list(listener.not_graded) == [each for each in graded if find(each).submits]
    results = {(rec.person, one.exercise): one for rec in records for one in rec.results}
    assert written.keys() <= results.keys()
    assert {
        f"{written[key]}, {key[1]}": why for key in written if (why := lost(results[key]))
    } == {}


@pytest.mark.parametrize(
    "honest", [h for h in ALL if h.exercise not in GRADED], ids=lambda h: h.name
)
def test_what_needs_no_slurm_of_a_job_script_is_right(honest):
    check = find(honest.exercise)
    run, fault = play_once(check, honest.source.replace("%%", "# %%", 1), 1, seed=5)
    assert fault is None, fault.diagnosis
    anywhere = check.claims[:-1]
    assert [claim.judge(run) for claim in anywhere] == [None] * len(anywhere)
