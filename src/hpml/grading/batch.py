"""Grade many submissions into a folder, and continue where an earlier run stopped.

OUT/grading.json          what is graded, with which seed: the same for all runs into OUT
OUT/records/PERSON.json   one record each, written atomically when it is done
"""

import contextlib
import fcntl
import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from hpml.checks import find
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.grading import record as records
from hpml.grading.judging import Judge, could_not
from hpml.grading.record import Record
from hpml.grading.submission import Submission
from hpml.grading.workers import WorkerDied, judged

MANIFEST = "grading.json"
RECORDS = "records"


@dataclass(frozen=True)
class Plan:
    """What is the same for every run into one folder."""

    exercises: tuple[str, ...]
    seed: int
    unsafe: bool
    people: tuple[str, ...]


class Listener(Protocol):
    """Receives the progress of a grading. Times are in seconds."""

    def started(self, total: int, kept: int) -> None:
        """`total` submissions, of which `kept` are graded already."""

    def graded(self, record: Record, done: int, total: int, elapsed: float) -> None:
        """One more is graded: `done` of the `total` that this run has to do."""


def exercises_of(
    submissions: Sequence[Submission], course: Course, only: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The exercises to grade, in the course's order, and those left out because they run on SLURM.

    `only` names exercise ids and modules. Without it: all exercises of every module in which
    somebody answered one. Raises UserError for an unknown name.
    """
    wanted: list[str] = []
    for name in only:
        modules = [m for m in course.modules if name in (m.id, m.name)]
        ids = [e.id for m in modules for e in m.exercises]
        wanted += ids or [course.exercise(name).id]
    if not only:
        answered = {exercise for each in submissions for exercise in each.answers}
        wanted = [
            exercise.id
            for module in course.modules
            if any(exercise.id in answered for exercise in module.exercises)
            for exercise in module.exercises
        ]
    chosen = [e.id for m in course.modules for e in m.exercises if e.id in wanted]
    submitting = [exercise for exercise in chosen if find(exercise).submits]
    return tuple(e for e in chosen if e not in submitting), tuple(submitting)


def grade(
    submissions: Sequence[Submission],
    judge: Judge,
    out: Path,
    listener: Listener,
    *,
    seed: int | None = None,
    jobs: int = 1,
    resume: bool = False,
    part: tuple[int, int] = (1, 1),
) -> list[Record]:
    """Grade `submissions` into `out`; the records of all of them, or of this `part` of them.

    `part` (k, n) takes every n-th submission from the k-th on, for several nodes that grade into
    one folder. With `resume`, records of unchanged submissions are kept; without, a folder that
    holds a grading is refused, unless it is another part of this one. Where no `seed` is given,
    one is drawn and kept in the folder.

    Raises UserError where the folder cannot be used, is full, or is in use.
    """
    if not judge.exercises:
        raise UserError("none of the submissions answers an exercise that can be graded here")
    people = tuple(sorted(each.person for each in submissions))
    drawn = secrets.randbelow(2**31) if seed is None else seed
    plan = Plan(tuple(judge.exercises), drawn, judge.unsafe, people)
    number, parts = part
    with _using(out, part):
        plan = _agreed(plan, out, resume or parts > 1)
        if seed is not None and seed != plan.seed:
            raise UserError(f"{out}: was begun with --seed {plan.seed}: use another --out")
        judge = replace(judge, seed=plan.seed)
        mine = sorted(submissions, key=lambda each: each.person)[number - 1 :: parts]
        kept = _kept(mine, out) if resume else {}
        todo = [each for each in mine if each.person not in kept]
        listener.started(len(mine), len(kept))
        began = time.monotonic()
        found = dict(kept)
        outcomes = judged(todo, judge, min(jobs, max(len(todo), 1)))
        for done, (submission, outcome) in enumerate(outcomes, 1):
            if isinstance(outcome, WorkerDied):
                outcome = could_not(judge, submission, str(outcome))
            _write(outcome, out)
            found[submission.person] = outcome
            listener.graded(outcome, done, len(todo), time.monotonic() - began)
    return [found[each.person] for each in mine]


def merge(out: Path) -> tuple[list[Record], list[str]]:
    """The records in a folder, and the people whose submissions are not graded yet."""
    if not (out / MANIFEST).exists():
        raise UserError(f"{out}: no grading is here: there is no {MANIFEST}")
    people = _read(out / MANIFEST).people
    found = [record for record in records.read_folder(out / RECORDS) if record.person in people]
    there = {record.person for record in found}
    return found, [person for person in people if person not in there]


@contextlib.contextmanager
def _using(out: Path, part: tuple[int, int]) -> Iterator[None]:
    """Create the folder if missing, and hold the lock on this part of it."""
    try:
        (out / RECORDS).mkdir(parents=True, exist_ok=True)
        lock = open(out / f".part-{part[0]}-of-{part[1]}", "w")  # noqa: SIM115
    except OSError as error:
        raise UserError(
            f"{out}: cannot be written to ({error.strerror}): use another --out"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{out}: another run is grading into it: wait for it") from None
        yield


def _agreed(plan: Plan, out: Path, join: bool) -> Plan:
    """The folder's plan: the one that is there, or this one, which is then written."""
    path = out / MANIFEST
    try:
        # Atomic, and only by the first: parts on several nodes may begin at the same time.
        with tempfile.NamedTemporaryFile("w", dir=out, prefix=".plan-") as file:
            json.dump(asdict(plan), file, indent=1)
            file.flush()
            os.link(file.name, path)
        return plan
    except FileExistsError:
        pass
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    if not join:
        raise UserError(
            f"{out}: holds a grading already: --resume goes on with it, or use another --out"
        )
    there = _read(path)
    if there.exercises != plan.exercises:
        raise UserError(
            f"{out}: was begun with the exercises {', '.join(there.exercises)}: use another --out"
        )
    if there.unsafe != plan.unsafe:
        raise UserError(
            f"{out}: was begun {'with' if there.unsafe else 'without'} --unsafe: use another --out"
        )
    if there.people != plan.people:
        # People may hand in late; existing records are kept.
        records.write_whole(
            path, json.dumps(asdict(replace(there, people=plan.people)), indent=1).encode()
        )
    return there


def _read(path: Path) -> Plan:
    try:
        plan = json.loads(path.read_text())
        return Plan(
            exercises=tuple(map(str, plan["exercises"])),
            seed=int(plan["seed"]),
            unsafe=bool(plan["unsafe"]),
            people=tuple(map(str, plan["people"])),
        )
    except (OSError, ValueError, TypeError, KeyError):
        raise UserError(
            f"{path}: not the plan of a grading: remove the folder, or use another --out"
        ) from None


def _kept(submissions: Sequence[Submission], out: Path) -> dict[str, Record]:
    """Records of an earlier run that are still valid for these submissions."""
    kept = {}
    for submission in submissions:
        path = out / RECORDS / f"{submission.person}.json"
        if path.exists():
            record = records.read(path)
            if record.digest == submission.digest and record.complete:
                kept[submission.person] = record
    return kept


def _write(record: Record, out: Path) -> None:
    try:
        records.write(record, out / RECORDS)
    except OSError as error:
        raise UserError(
            f"{out}: the record of {record.person} cannot be written ({os.strerror(error.errno)}): "
            "what was graded before is there; make room and go on with --resume"
        ) from None
