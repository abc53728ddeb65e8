"""Grading from paths to records: find submissions, plan, judge each in its own sandbox.

    paths ──► intake ──► Submission ──► batch ──► Record

Tables and pages made from records: `hpml.grading.outputs`.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.grading import batch, intake, sandbox
from hpml.grading.judging import Judge
from hpml.grading.record import Record
from hpml.grading.submission import Submission
from hpml.grading.workers import WorkerDied, judged


@dataclass(frozen=True)
class Options:
    """What to grade, and how.

    `only` are exercise ids and modules; if empty, all exercises of every module in which somebody
    answered one. With `core`, of these the exercises of the core path. `part` (k, n) is every n-th
    submission from the k-th on. `unsafe`: without a sandbox, with this user's rights.
    """

    paths: Sequence[Path]  # notebooks, folders of them, zips of platforms
    only: Sequence[str] = ()
    jobs: int = 1  # submissions at a time
    resume: bool = False  # keep what is graded in the folder
    part: tuple[int, int] = (1, 1)
    unsafe: bool = False
    core: bool = False


class Listener(batch.Listener, Protocol):
    """Receives the progress of a grading, from its beginning."""

    def left_out(self, exercises: Sequence[str]) -> None:
        """These are not graded: they submit what an answer returns to this machine's SLURM."""


def grade(options: Options, course: Course, out: Path, listener: Listener) -> list[Record]:
    """Grade into the folder `out` (see `hpml.grading.batch`); returns the records, by person.

    Raises UserError if there is nothing to grade, no sandbox, or the folder cannot be used.
    """
    _need_a_sandbox(options)
    with tempfile.TemporaryDirectory(prefix="hpml-grade-") as scratch:
        submissions = intake.collect(options.paths, Path(scratch))
        exercises, left_out = _exercises(submissions, options, course)
        if left_out:
            listener.left_out(left_out)
        limits = sandbox.shared_by(options.jobs)
        judge = Judge(course, exercises, limits=limits, unsafe=options.unsafe, core=options.core)
        return batch.grade(
            submissions,
            judge,
            out,
            listener,
            jobs=options.jobs,
            resume=options.resume,
            part=options.part,
            only=bool(options.only),
        )


def grade_one(options: Options, course: Course) -> Record:
    """The record of the only submission. Raises UserError if there are several."""
    _need_a_sandbox(options)
    with tempfile.TemporaryDirectory(prefix="hpml-grade-") as scratch:
        submissions = intake.collect(options.paths, Path(scratch))
        if len(submissions) != 1:
            raise UserError(f"--json: {len(submissions)} submissions there: give one")
        exercises, _ = _exercises(submissions, options, course)
        judge = Judge(course, exercises, unsafe=options.unsafe, core=options.core)
        ((_, record),) = judged(submissions, judge, jobs=1)
    if isinstance(record, WorkerDied):
        raise UserError(f"could not be graded: {record}")
    return record


def _need_a_sandbox(options: Options) -> None:
    why = "" if options.unsafe else sandbox.missing()
    if why:
        raise UserError(f"grading needs a sandbox: {why} (--unsafe grades without, and says so)")


def _exercises(
    submissions: Sequence[Submission], options: Options, course: Course
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The exercises to grade, and those to leave out."""
    exercises, submitting = batch.exercises_of(submissions, course, options.only, core=options.core)
    return (exercises + submitting, ()) if options.unsafe else (exercises, submitting)
