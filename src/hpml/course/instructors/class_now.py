"""Where a class is now: who has been on one claim for long, what most people miss, what to say.

Made from what learners' own machines recorded (`class_folder`), the catalogues of wrong answers,
and the clock of the run sheet. No mark is made of it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import takewhile
from statistics import median_low

from hpml.checks import hint_texts
from hpml.course.class_record import Line
from hpml.course.instructors import cluster_steps, core_path, day_clock, run_sheet
from hpml.course.instructors.class_folder import Learner, Recorded
from hpml.course.instructors.run_sheet import Mistake
from hpml.course.schedule import Course, Exercise

ACTIVE = timedelta(minutes=30)  # since the last check: later it is not known what somebody does
LONG = timedelta(minutes=10)  # on one claim; an exercise of the core has 5 to 25 minutes
MOST = 3  # claims that most people miss

# Where no claim was judged, by the verdict's cause
CAUSES: Mapping[str, str] = {
    "unwritten": "not written yet",
    "missing name": "does not define what is asked for",
    "not allowed": "uses what the exercise does not allow",
    "hang": "ranks wait, and never go on",
    "mismatch": "ranks call different collectives",
    "raised": "raises an exception",
    "exited": "a rank exits before its end",
    "memory": "takes more memory than a rank has",
    "killed": "a rank is killed",
    "limit": "takes too long",
    "flood": "prints without end",
    "refused": "returns what cannot be sent",
    "ours": "could not be judged on that machine",
}

Saying = Callable[[str, str], Mistake | None]  # of an exercise and the key of a hint


@dataclass(frozen=True)
class Planned:
    """A core exercise on the run sheet's clock, in minutes of the day; None: before the day."""

    exercise: Exercise
    begins: int | None
    ends: int | None


@dataclass(frozen=True)
class Standing:
    """The claim, or the cause for which none is judged, that a learner is on."""

    learner: str
    exercise: str
    what: str
    cause: str  # "claims", else why no claim was judged
    hint: str  # its key
    minutes: int  # since it first failed
    quiet: int  # minutes since the last check
    checks: int  # in which it failed
    hints: int  # that were read


@dataclass(frozen=True)
class Missed:
    """What several learners are on at this moment."""

    exercise: str
    what: str
    learners: tuple[str, ...]
    mistake: Mistake | None  # `wrong` is "" where no catalogue has one


@dataclass(frozen=True)
class Cell:
    """A learner's last check of an exercise."""

    learner: str
    state: str  # "done", "tried", "on it", "long" or "" without a check
    holds: int = 0
    claims: int = 0


@dataclass(frozen=True)
class Row:
    """An exercise that somebody has checked."""

    exercise: Exercise
    cells: tuple[Cell, ...]

    @property
    def done(self) -> int:
        return sum(cell.state == "done" for cell in self.cells)


@dataclass(frozen=True)
class CoreRow:
    """A core exercise: when it is planned, and how many are where."""

    exercise: str
    at: str  # "13:54", or "before"
    phase: str  # "over", "now" or "later", by the clock
    done: int
    on_it: int


@dataclass(frozen=True)
class Now:
    """All that an instructor sees at a moment."""

    at: datetime
    learners: tuple[str, ...]
    active: int  # of them
    missed: tuple[Missed, ...]  # the most first
    long: tuple[Standing, ...]  # the longest first
    core: tuple[CoreRow, ...]
    over: int  # core exercises whose time is over
    middle: int | None  # core exercises that half of the learners have done, or more of them
    rows: tuple[Row, ...]
    ignored: int  # lines
    unread: int  # files
    fault: str = ""  # why it is no longer `at` this moment that is shown


def plan(course: Course) -> tuple[Planned, ...]:
    """The core exercises in the order of the day. Raises UserError if a lecture cannot be read."""
    found = []
    for module in course.modules:
        first = day_clock.begins(module)
        path = core_path.of(course, module)
        passed = 0.0
        for entry in run_sheet.clock(path, cluster_steps.read(course, module)):
            if entry.exercise and first is not None:
                begun = first + round(passed)
                found.append(Planned(entry.exercise, begun, begun + entry.exercise.minutes))
            elif entry.exercise:
                found.append(Planned(entry.exercise, None, None))
            passed += entry.minutes
    return tuple(found)


def sayings(course: Course) -> Saying:
    """What to say to those who meet a hint. Files are read when they are first asked for."""

    @cache
    def of(exercise: str) -> tuple[Mapping[str, str], Mapping[str, Mistake]]:
        hints = {**hint_texts.general(), **hint_texts.of(exercise)}
        return hints, run_sheet.by_hint(course, exercise, hints)

    def saying(exercise: str, hint: str) -> Mistake | None:
        hints, mistakes = of(exercise)
        return mistakes.get(hint) or (Mistake("", hints[hint]) if hint in hints else None)

    return saying


def look(
    course: Course, planned: Sequence[Planned], recorded: Recorded, saying: Saying, now: datetime
) -> Now:
    """The class at `now`, whose time zone is the run sheet's."""
    standings = [_active(standing(learner, now)) for learner in recorded.learners]
    active = [each for each in standings if each]
    rows = tuple(_rows(course, recorded.learners, standings))
    done = {row.exercise.id: row.done for row in rows}
    on_it = Counter(each.exercise for each in active)
    minute = now.hour * 60 + now.minute
    core = tuple(
        CoreRow(
            each.exercise.id,
            "before" if each.begins is None else f"{each.begins // 60:02d}:{each.begins % 60:02d}",
            _phase(each, minute),
            done.get(each.exercise.id, 0),
            on_it[each.exercise.id],
        )
        for each in planned
    )
    wanted = {each.exercise.id for each in planned}
    passed = [
        len({line.exercise for line in learner.lines if _is_done(line)} & wanted)
        for learner in recorded.learners
    ]
    return Now(
        at=now,
        learners=tuple(learner.label for learner in recorded.learners),
        active=sum(now - learner.lines[-1].at < ACTIVE for learner in recorded.learners),
        missed=_missed(active, saying),
        long=tuple(sorted(filter(_is_long, active), key=lambda s: (-s.minutes, s.learner))),
        core=core,
        over=sum(row.phase == "over" for row in core),
        middle=median_low(passed) if passed else None,
        rows=rows,
        ignored=recorded.ignored,
        unread=recorded.unread,
    )


def standing(learner: Learner, now: datetime) -> Standing | None:
    """What a learner is on, by the last check; None if its exercise was passed, now or before.

    A check in which no claim could be judged, as with an exception, does not begin it anew.
    """
    last = learner.lines[-1]
    if any(line.exercise == last.exercise and _is_done(line) for line in learner.lines):
        return None
    back = reversed(learner.lines)
    tried = [*takewhile(lambda line: line.exercise == last.exercise, back)]
    on = next((line for line in tried if line.claim), last)
    failed = [*takewhile(lambda line: line.claim in ("", on.claim), tried)]
    failed = [line for line in failed if line.claim == on.claim]
    return Standing(
        learner=learner.label,
        exercise=on.exercise,
        what=on.claim or CAUSES.get(on.cause, on.cause),
        cause="claims" if on.claim else on.cause,
        hint=on.hint,
        minutes=_minutes(now - failed[-1].at),
        quiet=_minutes(now - last.at),
        checks=len(failed),
        hints=max(line.hints for line in tried),
    )


def _is_done(line: Line) -> bool:
    """Passed, or not gradable here with nothing that failed: there is no more to do."""
    return line.status == "passed" or (line.status == "not gradable" and line.cause != "ours")


def _missed(active: Sequence[Standing], saying: Saying) -> tuple[Missed, ...]:
    """What most of those who are at work are on; a stub that is not written yet is not missed.

    What one learner alone is on stands there only where no two are on the same.
    """
    same: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    for each in active:
        if each.cause not in ("unwritten", "ours"):
            same[each.exercise, each.what].append(each)
    most = sorted(same.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST]
    shared = [item for item in most if len(item[1]) > 1]
    return tuple(
        Missed(
            exercise,
            what,
            tuple(each.learner for each in those),
            saying(exercise, Counter(each.hint for each in those).most_common(1)[0][0]),
        )
        for (exercise, what), those in shared or most[:1]
    )


def _rows(
    course: Course, learners: Sequence[Learner], standings: Sequence[Standing | None]
) -> Iterator[Row]:
    for exercise in (each for module in course.modules for each in module.exercises):
        cells = tuple(
            _cell(learner, exercise.id, standing)
            for learner, standing in zip(learners, standings, strict=True)
        )
        if any(cell.state for cell in cells):
            yield Row(exercise, cells)


def _cell(learner: Learner, exercise: str, standing: Standing | None) -> Cell:
    lines = [line for line in learner.lines if line.exercise == exercise]
    if not lines:
        return Cell(learner.label, "")
    state = "done" if any(map(_is_done, lines)) else "tried"
    if state == "tried" and standing and standing.exercise == exercise:
        state = "long" if _is_long(standing) else "on it"
    return Cell(learner.label, state, lines[-1].holds, lines[-1].claims)


def _active(standing: Standing | None) -> Standing | None:
    """None where the last check is so long ago that nobody knows."""
    known = standing is not None and timedelta(minutes=standing.quiet) < ACTIVE
    return standing if known else None


def _is_long(standing: Standing) -> bool:
    return timedelta(minutes=standing.minutes) >= LONG


def _phase(each: Planned, minute: int) -> str:
    if each.begins is None or each.ends is None or minute >= each.ends:
        return "over"
    return "now" if minute >= each.begins else "later"


def _minutes(passed: timedelta) -> int:
    return int(passed.total_seconds() // 60)
