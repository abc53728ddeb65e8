"""Marks as tables: marks.csv, and the terminal's tables after a class is graded.

What could not be graded, was refused or does not count has no mark: neither 0, nor a sum without
it. Medians and means are those of the people who have a total.
"""

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpml.course.schedule import Course
from hpml.files.sanitize import short
from hpml.grading.record import WITHOUT_MARK, Record, Result, Status, missed

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType
    from rich.table import Table

    Column = tuple[str, JustifyMethod]  # its heading

NOT_GRADABLE = "not gradable"
CORE = "core exercises only"
UNSAFE = "UNSAFE: graded outside a sandbox"
SIGNS: dict[Status, str] = {
    "passed": "✓",
    "failed": "✗",
    "missing": "–",
    "refused": "!",
    "not counted": "≠",
    "not gradable": "?",
}
STYLES = {"passed": "green", "failed": "red", "missing": "dim"}
STYLES |= dict.fromkeys(WITHOUT_MARK, "magenta")


@dataclass(frozen=True)
class ExerciseCount:
    """One exercise's results in a class. `mean` is of the points of those who have a total."""

    exercise: str
    title: str
    module: str
    points: int
    number: dict[Status, int]  # of people, by status; those that are not 0
    mean: float | None

    @property
    def people(self) -> int:
        return sum(self.number.values())


def exercises(records: Iterable[Record], course: Course) -> list[str]:
    """The graded exercises, in the order of the course."""
    found = dict.fromkeys(result.exercise for record in records for result in record.results)
    order = [exercise.id for module in course.modules for exercise in module.exercises]
    known = [exercise for exercise in order if exercise in found]
    return known + [exercise for exercise in found if exercise not in order]


def as_csv(records: Iterable[Record], course: Course) -> str:
    """One row per person: person, name, email, each exercise's points, total, points, note.

    Where there is no mark, the status is written, and so it is for a total that depends on it. A
    cell is empty if the exercise was not graded for this person.
    """
    records = list(records)
    columns = exercises(records, course)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["person", "name", "email", *columns, "total", "points", "note"])
    for record in records:
        marks = {result.exercise: _mark(result) for result in record.results}
        rows.writerow(
            [
                *map(defused, (record.person, record.name, record.email)),
                *(marks.get(exercise, "") for exercise in columns),
                total(record),
                record.points,
                defused("; ".join(filter(None, [CORE if record.core else "", note(record)]))),
            ]
        )
    return text.getvalue()


def total(record: Record) -> int | str:
    """A person's points; the worst status of an exercise without a mark; "" with no exercise."""
    statuses = {result.status for result in record.results}
    worst = next((status for status in WITHOUT_MARK if status in statuses), "")
    return worst or (record.earned if record.results else "")


def note(record: Record) -> str:
    """A remark for the reader of the mark, in one line; often empty."""
    by_status: dict[str, list[str]] = {}
    for result in record.results:
        by_status.setdefault(result.status, []).append(result.exercise)
    parts = [
        UNSAFE if record.unsafe else "",
        *(
            f"{status}: {', '.join(by_status[status])}"
            for status in (*WITHOUT_MARK, "missing")
            if status in by_status and not (record.refused and status == "refused")
        ),
        f"refused: {short(record.refused)}" if record.refused else "",
        *(short(each) for each in record.notes),
    ]
    return "; ".join(part for part in parts if part)


def defused(text: str) -> str:
    """`text` such that no spreadsheet takes it for a formula (OWASP, CSV Injection)."""
    cell = short(text, 1000)
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell


def counts(records: Iterable[Record], course: Course) -> list[ExerciseCount]:
    """The results of each graded exercise, in the order of the course."""
    records = list(records)
    by_id: dict[str, list[Result]] = {exercise: [] for exercise in exercises(records, course)}
    earned: dict[str, list[int]] = {exercise: [] for exercise in by_id}
    for record in records:
        for result in record.results:
            by_id[result.exercise].append(result)
            if record.has_total:
                earned[result.exercise].append(result.earned)
    return [_count(results, earned[exercise]) for exercise, results in by_id.items()]


def ungraded(records: Iterable[Record]) -> list[tuple[str, str, list[Record]]]:
    """What could not be graded, by exercise and cause: (exercise, cause, records)."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        for result in record.results:
            if result.status == NOT_GRADABLE:
                found.setdefault((result.exercise, _why(result)), []).append(record)
    return [(*cause, people) for cause, people in found.items()]


def refused(records: Iterable[Record]) -> list[tuple[Record, str, list[str]]]:
    """What was refused or does not count, by person and reason: (record, reason, exercises)."""
    found: list[tuple[Record, str, list[str]]] = []
    for record in records:
        if record.refused:
            found.append((record, record.refused, [result.exercise for result in record.results]))
            continue
        reasons: dict[str, list[str]] = {}
        for result in record.results:
            if result.status in ("refused", "not counted"):
                reasons.setdefault(result.headline, []).append(result.exercise)
        found += [(record, why, of) for why, of in reasons.items()]
    return found


def summary(records: Sequence[Record]) -> str:
    """The class in one or two sentences."""
    totals = [record.earned for record in records if record.has_total]
    words = f"{len(records)} {'person' if len(records) == 1 else 'people'}"
    if totals:
        points = max(record.points for record in records)
        words += f"; the median is {statistics.median(totals):g} of {points} points"
    if any(record.core for record in records):
        words += f" ({CORE})"
    without = sum(not record.has_total for record in records)
    if without:
        words += (
            f". {without} {_have(without)} no total yet, and {_are(without)} in no mean or median"
        )
    return f"{words}."


def tables(records: Sequence[Record], course: Course) -> "list[RenderableType]":
    """The tables to print after a class is graded.

    In order: what could not be graded and what was refused (omitted if empty), a row per person,
    a row per exercise, the exercises most missed with the claim most missed.
    """
    shown = [_troubles(records), _people(records, course), _exercises(records, course)]
    return [table for table in [*shown, _most_missed(records)] if table is not None]


def _mark(result: Result) -> int | str:
    return result.earned if result.has_mark else result.status


def _why(result: Result) -> str:
    """The headline, and why a claim could not be judged."""
    if result.cause != "claims":
        return result.headline
    messages = [claim.message for claim in result.claims if not claim.judged and claim.message]
    return ": ".join([result.headline, *messages[:1]])


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _count(results: Sequence[Result], earned: Sequence[int]) -> ExerciseCount:
    number = {status: sum(r.status == status for r in results) for status in SIGNS}
    first = results[0]
    return ExerciseCount(
        exercise=first.exercise,
        title=first.title,
        module=first.module,
        points=first.points,
        number={status: count for status, count in number.items() if count},
        mean=statistics.fmean(earned) if earned else None,
    )


def _table(title: str, *columns: "Column") -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading, justify in columns:
        table.add_column(heading, justify=justify, overflow="fold")
    return table


def _text(words: object, style: str = "") -> "RenderableType":
    """Words printed literally: rich does not interpret markup in them."""
    from rich.text import Text

    return Text(short(str(words)), style=style)


def _troubles(records: Sequence[Record]) -> "RenderableType | None":
    rows = [
        (exercise, ", ".join(record.person for record in people), why)
        for exercise, why, people in ungraded(records)
    ]
    for record, why, of in refused(records):
        names = "all" if len(of) == len(record.results) else ", ".join(of)
        rows.append((names, record.person, why))
    if not rows:
        return None
    title = "No mark: could not be graded, was refused, or does not count"
    table = _table(title, ("exercise", "left"), ("whose", "left"), ("why", "left"))
    for exercise, whose, why in rows:
        table.add_row(_text(exercise, STYLES[NOT_GRADABLE]), _text(whose), _text(why))
    return table


def _people(records: Sequence[Record], course: Course) -> "RenderableType":
    from rich.text import Text

    columns = exercises(records, course)
    heading: Column = ("marks", "left")
    table = _table("People", ("person", "left"), ("points", "right"), heading, ("note", "left"))
    for record in records:
        status = {result.exercise: result.status for result in record.results}
        marks = Text(" ").join(
            Text(SIGNS[status[exercise]], STYLES[status[exercise]])
            if exercise in status
            else Text(" ")
            for exercise in columns
        )
        points = f"{total(record)} of {record.points}" if record.has_total else total(record)
        table.add_row(_text(record.person), _text(points), marks, _text(note(record)))
    table.caption = "  ".join(f"{sign} {status}" for status, sign in SIGNS.items())
    table.caption_justify = "left"
    return table


def _exercises(records: Sequence[Record], course: Course) -> "RenderableType":
    rows = counts(records, course)
    # The last three are columns only where there are any
    statuses = [s for s in SIGNS if s not in WITHOUT_MARK or any(s in c.number for c in rows)]
    words: list[Column] = [(status, "right") for status in statuses]
    table = _table("Exercises, in the order of the marks", ("exercise", "left"), *words)
    table.add_column("mean", justify="right")
    for count in rows:
        numbers = [count.number.get(status, "") for status in statuses]
        mean = "–" if count.mean is None else f"{count.mean:.1f} of {count.points}"
        table.add_row(_text(count.exercise), *map(_text, numbers), _text(mean))
    return table


def _most_missed(records: Sequence[Record]) -> "RenderableType | None":
    rows = missed(records)[:5]
    if not rows:
        return None
    table = _table(
        "Most missed, of those who tried",
        ("exercise", "left"),
        ("missed by", "right"),
        ("most often for want of", "left"),
    )
    for exercise, count, of, claim in rows:
        table.add_row(_text(exercise), _text(f"{count} of {of}"), _text(claim or "an answer"))
    return table
