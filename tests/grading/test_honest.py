"""Everybody who is right gets everything: the course's solutions, and unusual right answers."""

import shutil
from pathlib import Path

import nbformat
import pytest

from hpml.bench.honest import in_turn, read_all
from hpml.checks import find
from hpml.checks.plays import play_once
from hpml.checks.registry import ids
from hpml.course import schedule
from hpml.grading.grade import Options, grade
from hpml.grading.record import Result
from hpml.paths import CHECKOUT

COURSE = schedule.load()
# Seconds are measured for some claims. Where the machine is too busy for that, nobody loses points.
BUSY = "the machine is too busy"
ALL = read_all()
GRADED = tuple(exercise for exercise in ids() if not find(exercise).submits)


def hand_in_solutions(folder: Path) -> dict[tuple[str, str], str]:
    """Write all solutions into `folder` as one person's submission.

    Returns who wrote each answer that is graded, by person and exercise.
    """
    (folder / "solutions").mkdir()
    for module in COURSE.modules:
        shutil.copy(CHECKOUT / module.solution, folder / "solutions")
    return {("solutions", exercise): "the solution" for exercise in GRADED}


def hand_in_all(folder: Path) -> dict[tuple[str, str], str]:
    """Write submissions into `folder`: all solutions, and all of ALL, one an exercise in each.

    Returns who wrote each answer that is graded, by person and exercise.
    """
    written = hand_in_solutions(folder)
    graded = [honest for honest in ALL if honest.exercise in GRADED]
    for number, submission in enumerate(in_turn(graded), 1):
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
    def started(self, total: int, kept: int) -> None:
        pass

    def graded(self, *_: object) -> None:
        pass

    def left_out(self, exercises: tuple[str, ...]) -> None:
        self.not_graded = exercises


def test_every_exercise_is_answered_by_somebody_unusual():
    assert {honest.exercise for honest in ALL} == set(ids())
    assert len(ALL) >= 40


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("hand_in", "jobs"),
    [
        # Everybody two at a time, which is the harder of the two; one at a time, the solutions.
        pytest.param(hand_in_all, 2, id="all, 2 at a time"),
        pytest.param(hand_in_solutions, 1, id="solutions, 1 at a time"),
    ],
)
def test_the_grader_gives_full_marks_to_solutions_and_to_unusual_right_answers(
    tmp_path, hand_in, jobs
):
    (tmp_path / "class").mkdir()
    written = hand_in(tmp_path / "class")
    listener = Listener()
    records = grade(Options([tmp_path / "class"], jobs=jobs), COURSE, tmp_path / "out", listener)
    assert listener.not_graded == ("job_script",)  # it takes a SLURM, which no sandbox has
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
