"""Grade many submissions into a folder, and continue where an earlier run stopped.

OUT/grading.json          what is graded: the same for all runs into OUT
OUT/secret                what all inputs follow from, for the instructor alone
OUT/records/PERSON.json   one record each, written atomically when it is done
"""

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from hpml.checks import find
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.files import atomic
from hpml.grading import hand_ins, secret
from hpml.grading import record as records
from hpml.grading.judging import Judge, could_not, never_given
from hpml.grading.record import Record
from hpml.grading.submission import Submission
from hpml.grading.workers import WorkerDied, judged

MANIFEST = "grading.json"
RECORDS = "records"


@dataclass(frozen=True)
class Plan:
    """What is the same for every run into one folder."""

    exercises: tuple[str, ...]
    unsafe: bool
    people: tuple[str, ...]
    core: bool = False
    only: bool = False  # answers to other exercises were left out, because --only was given


class Listener(Protocol):
    """Receives the progress of a grading. Times are in seconds."""

    def started(self, total: int, kept: int) -> None:
        """`total` submissions, of which `kept` are graded already."""

    def graded(self, record: Record, done: int, total: int, elapsed: float) -> None:
        """One more is graded: `done` of the `total` that this run has to do."""


def exercises_of(
    submissions: Sequence[Submission],
    course: Course,
    only: Sequence[str] = (),
    *,
    core: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The exercises to grade, in the course's order, and those left out because they run on SLURM.

    `only` names exercise ids and modules. Without it: all exercises of every module in which
    somebody answered one, or seems to have; a stub as it was handed out is not one. With `core`,
    of all these the exercises of the core path. Raises UserError for an unknown name.
    """
    wanted = named(only, course)
    if not only:
        answered = {
            exercise
            for each in submissions
            for exercise in (*each.uncounted, *hand_ins.answered(each, course))
        }
        wanted = [
            exercise.id
            for module in course.modules
            if any(exercise.id in answered for exercise in module.exercises)
            for exercise in module.exercises
        ]
    entries = course.core if core else [e for m in course.modules for e in m.exercises]
    chosen = [entry.id for entry in entries if entry.id in wanted]
    if core and wanted and not chosen:
        raise UserError(f"none of {', '.join(wanted)} is on the core path: leave out --core")
    submitting = [exercise for exercise in chosen if find(exercise).submits]
    return tuple(e for e in chosen if e not in submitting), tuple(submitting)


def named(names: Sequence[str], course: Course) -> list[str]:
    """The exercises of these exercise ids and modules. Raises UserError for an unknown name."""
    found: list[str] = []
    for name in names:
        modules = [m for m in course.modules if name in (m.id, m.name)]
        found += [e.id for m in modules for e in m.exercises] or [course.exercise(name).id]
    return found


def grade(
    submissions: Sequence[Submission],
    judge: Judge,
    out: Path,
    listener: Listener,
    *,
    jobs: int = 1,
    resume: bool = False,
    part: tuple[int, int] = (1, 1),
    only: bool = False,
) -> list[Record]:
    """Grade `submissions` into `out`; the records of all of them, or of this `part` of them.

    Others may have records in the folder as well: `merge` has everybody's.

    `part` (k, n) takes every n-th submission from the k-th on, for several nodes that grade into
    one folder. With `resume`, what is graded is kept: of a person who hands in anew, the exercises
    that are not in the new hand-in; and all records are completed where there are more exercises to
    grade than before. Without, a folder that holds a grading is refused, unless it is another part
    of this one. The folder's secret takes the place of the judge's. `only` says that the judge's
    exercises were chosen, and that there may be other answers.

    Raises UserError where the folder cannot be used, is full, or is in use.
    """
    if not judge.exercises:
        raise UserError("none of the submissions answers an exercise that can be graded here")
    people = tuple(sorted(each.person for each in submissions))
    plan = Plan(tuple(judge.exercises), judge.unsafe, people, judge.core, only)
    number, parts = part
    with _using(out, part):
        plan = _agreed(plan, out, judge.course, resume, parts)
        judge = replace(judge, secret=secret.of_folder(out))
        mine = sorted(submissions, key=lambda each: each.person)[number - 1 :: parts]
        found = _kept(mine, out, judge.course) if resume else {}
        todo = _to_judge(mine, plan.exercises, found)
        left = sum(map(len, todo.values()))
        listener.started(len(mine), len(mine) - left)
        began, done = time.monotonic(), 0
        for exercises, some in todo.items():
            each_of = replace(judge, exercises=exercises)
            for submission, outcome in judged(some, each_of, min(jobs, len(some))):
                if isinstance(outcome, WorkerDied):
                    outcome = could_not(each_of, submission, str(outcome))
                if submission.person in found:
                    before = found[submission.person]
                    outcome = hand_ins.together(before, outcome, plan.exercises)
                _write(outcome, out)
                found[submission.person] = outcome
                done += 1
                listener.graded(outcome, done, left, time.monotonic() - began)
        if resume and parts == 1:
            _complete_others(plan, {each.person for each in mine}, out, judge.course)
    return [found[each.person] for each in mine]


def _to_judge(
    submissions: Sequence[Submission], exercises: tuple[str, ...], kept: Mapping[str, Record]
) -> dict[tuple[str, ...], list[Submission]]:
    """The submissions to judge, by the exercises that have no result in their `kept` record."""
    todo: dict[tuple[str, ...], list[Submission]] = {}
    for each in submissions:
        record = kept.get(each.person)
        there = {result.exercise for result in record.results} if record else set()
        if lacking := tuple(exercise for exercise in exercises if exercise not in there):
            todo.setdefault(lacking, []).append(each)
    return todo


def _complete_others(plan: Plan, given: set[str], out: Path, course: Course) -> None:
    """Give people who were graded before a result of each exercise that came later: nobody had
    answered it then."""
    for person in set(plan.people) - given:
        path = out / RECORDS / f"{person}.json"
        if not path.exists():
            continue
        record = records.read(path)
        there = {result.exercise: result for result in record.results}
        if lacking := [exercise for exercise in plan.exercises if exercise not in there]:
            there |= {exercise: never_given(course, exercise, record) for exercise in lacking}
            _write(replace(record, results=tuple(there[each] for each in plan.exercises)), out)


def merge(out: Path) -> tuple[list[Record], list[str]]:
    """The records in a folder, by person, and the people who are not graded in every exercise."""
    if not (out / MANIFEST).exists():
        raise UserError(f"{out}: no grading is here: there is no {MANIFEST}")
    plan = _read(out / MANIFEST)
    here = records.read_folder(out / RECORDS)
    found = sorted((r for r in here if r.person in plan.people), key=lambda r: r.person)
    whole = {
        record.person
        for record in found
        if {result.exercise for result in record.results} >= set(plan.exercises)
    }
    return found, [person for person in plan.people if person not in whole]


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


def _agreed(plan: Plan, out: Path, course: Course, resume: bool, parts: int) -> Plan:
    """The folder's plan: this one where there is none, else the one there with what is new here.

    People may hand in late, be graded by themselves, and with `resume` be the first to answer
    exercises of another module.
    """
    path = out / MANIFEST
    try:
        if atomic.create(path, _as_json(plan)):
            return plan
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    if not resume and parts == 1:
        raise UserError(
            f"{out}: holds a grading already: --resume goes on with it, or use another --out"
        )
    there = _read(path)
    if there.exercises != plan.exercises and not resume:
        raise UserError(
            f"{out}: was begun with the exercises {', '.join(there.exercises)}: --resume adds to "
            "them, or use another --out"
        )
    if there.unsafe != plan.unsafe:
        raise UserError(
            f"{out}: was begun {'with' if there.unsafe else 'without'} --unsafe: use another --out"
        )
    if there.core != plan.core:
        raise UserError(
            f"{out}: was begun {'with' if there.core else 'without'} --core: use another --out"
        )
    new, others = set(plan.exercises) - set(there.exercises), set(there.people) - set(plan.people)
    if new and others and there.only:
        raise UserError(
            f"{out}: was begun with --only, and {len(others)} of its people are not given now, who "
            f"may have answered {', '.join(sorted(new))} as well: give --resume everybody's files, "
            "nobody is graded twice"
        )
    order = [exercise.id for module in course.modules for exercise in module.exercises]
    wanted = {*there.exercises, *plan.exercises}
    agreed = replace(
        plan,
        exercises=tuple(each for each in order if each in wanted),
        people=tuple(sorted({*there.people, *plan.people})),
        only=plan.only and there.only,
    )
    if agreed != there:
        records.write_whole(path, _as_json(agreed))
    return agreed


def _as_json(plan: Plan) -> bytes:
    return json.dumps(asdict(plan), indent=1).encode()


def _read(path: Path) -> Plan:
    try:
        plan = json.loads(path.read_text())
        return Plan(
            exercises=tuple(map(str, plan["exercises"])),
            unsafe=bool(plan["unsafe"]),
            people=tuple(map(str, plan["people"])),
            core=bool(plan.get("core", False)),
            only=bool(plan.get("only", False)),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise UserError(
            f"{path}: not the plan of a grading: remove the folder, or use another --out"
        ) from None


def _kept(submissions: Sequence[Submission], out: Path, course: Course) -> dict[str, Record]:
    """Records of an earlier run, with the results that stay: see `hand_ins.kept`."""
    paths = {each.person: out / RECORDS / f"{each.person}.json" for each in submissions}
    return {
        each.person: hand_ins.kept(records.read(paths[each.person]), each, course)
        for each in submissions
        if paths[each.person].exists()
    }


def _write(record: Record, out: Path) -> None:
    try:
        records.write(record, out / RECORDS)
    except OSError as error:
        raise UserError(
            f"{out}: the record of {record.person} cannot be written ({error.strerror}): "
            "what was graded before is there; make room and go on with --resume"
        ) from None
