"""Submissions per minute: a module's right answers through the grader, one at a time and two."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hpml.bench.table import Row, Table, machine_conditions
from hpml.course import schedule
from hpml.errors import UserError
from hpml.grading import batch, intake, sandbox
from hpml.grading.judging import Judge
from hpml.grading.record import Record

MODULE = "06"
JOBS = (1, 2)


def bench(
    people: int | None = None, only: Sequence[str] = (), say: Callable[[str], None] = print
) -> Table:
    """Grade `people` right submissions (default: three for each core) with each of `JOBS`.

    A submission answers all exercises of module 06, of which `only` those are graded where some are
    named. `say` is called after each grading. The time has the workers' start in it.

    Raises UserError where there can be no sandbox, or a right answer gets less than full marks.
    """
    if why := sandbox.missing():
        raise UserError(f"bench grade: no sandbox: {why}")
    conditions = machine_conditions()
    conditions["sandbox"] = "; ".join(sandbox.layers())
    people = people or 3 * len(os.sched_getaffinity(0))
    course = schedule.load()
    module = course.module(MODULE)
    exercises = [e.id for e in module.exercises if not only or e.id in only]
    points = sum(course.exercise(exercise).points for exercise in exercises)
    conditions["a submission"] = f"right answers to {', '.join(exercises)}: {points} points"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="hpml-bench-") as folder:
        scratch, handed_in = Path(folder), Path(folder, "submitted")
        handed_in.mkdir()
        for person in range(1, people + 1):
            shutil.copy(course.root / module.solution, handed_in / f"person{person:02d}.ipynb")
        submissions = intake.collect([handed_in], scratch)
        for jobs in JOBS:
            judge = Judge(course, exercises, limits=sandbox.shared_by(jobs))
            began = time.monotonic()
            found = batch.grade(submissions, judge, scratch / f"{jobs}", _Unheard(), jobs=jobs)
            took = time.monotonic() - began
            hold(found, points)
            name = f"./hpml grade --jobs {jobs}"
            say(f"{name}: {people} graded in {took:.0f} s")
            base = rows[0].name if rows else None
            rows.append(Row(name, [60 * people / took], "per minute", base))
    return Table("How many submissions are graded in a minute", rows, conditions)


def hold(records: Sequence[Record], points: int) -> None:
    """Raises UserError for the first of the records that has not all the points."""
    for record in records:
        if record.earned != points:
            said = next((r.headline for r in record.results if r.status != "passed"), "")
            raise UserError(
                f"bench grade: {record.person} has {record.earned} of {points} points: {said}"
            )


class _Unheard:
    def started(self, total: int, kept: int) -> None:
        pass

    def graded(self, record: Record, done: int, total: int, elapsed: float) -> None:
        pass
