"""Marks by hand: OUT/overrides.csv, which the instructor writes and no run of the grader changes.

    person,exercise,earned,why
    ada,ddp,12,the sum is right but for the last bucket      a mark by hand, with its reason
    bo,ddp,,well explained                                   a comment on one answer
    cy,,-10%,two days late                                   off each of the person's marks
    cy,,,see you on Monday                                   a comment on all

Records stay as the grader made them. Tables, pages and exports are made from what `applied`
returns, so that all of them have the same marks.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpml.errors import UserError
from hpml.grading.record import Record, Result

FILE = "overrides.csv"
COLUMNS = ("person", "exercise", "earned", "why")
OFF = re.compile(r"-(\d{1,3}) ?%")


@dataclass(frozen=True)
class Override:
    """One row. `exercise` is "" for all of a person's; `earned` a whole number, "-10%" or ""."""

    where: str  # "overrides.csv, line 3"
    person: str
    exercise: str
    earned: str
    why: str

    def of(self, result: Result) -> Result:
        """The result with this mark, this much off, or this comment."""
        if self.exercise not in ("", result.exercise):
            return result
        if off := OFF.fullmatch(self.earned):
            share = 100 - int(off[1])
            # Halves up, in whole points; what has no mark has none to take from
            earned = (result.earned * share + 50) // 100 if result.has_mark else result.earned
            return _with_remark(replace(result, earned=earned), f"{off[1]} % off: {self.why}")
        if self.earned:
            right = int(self.earned) == result.points
            marked = replace(
                result, earned=int(self.earned), status="passed" if right else "failed"
            )
            return _with_remark(marked, f"{self.earned} of {result.points} by hand: {self.why}")
        return _with_remark(result, self.why) if self.exercise else result


def _with_remark(result: Result, remark: str) -> Result:
    return replace(result, remark="; ".join(filter(None, (result.remark, remark))))


def applied(records: Sequence[Record], out: Path) -> list[Record]:
    """The records with what OUT/overrides.csv says; as they are where there is no such file.

    Raises UserError, naming the line, for what cannot be done.
    """
    rows = list(_read(out / FILE)) if (out / FILE).exists() else []
    of = {record.person: record for record in records}
    for row in rows:
        _refuse(row, of.get(row.person))
    # What is off is off the mark by hand
    rows.sort(key=lambda row: row.earned.startswith("-"))
    for row in rows:
        record = of[row.person]
        results = tuple(map(row.of, record.results))
        notes = (*record.notes, row.why) if not row.exercise and row.why else record.notes
        of[row.person] = replace(record, results=results, notes=notes)
    return list(of.values())


def _read(path: Path) -> Iterator[Override]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    # As spreadsheets of some languages write it
    delimiter = ";" if text.partition("\n")[0].count(";") else ","
    lines = csv.DictReader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    if lacking := [name for name in COLUMNS if name not in (lines.fieldnames or ())]:
        raise UserError(
            f"{path}: no column {', '.join(lacking)}: the first line is {','.join(COLUMNS)}"
        )
    for line in lines:
        values = {name: (line[name] or "").strip() for name in COLUMNS}
        if any(values.values()):
            yield Override(f"{path}, line {lines.line_num}", **values)


def _refuse(row: Override, record: Record | None) -> None:
    """Raises UserError for a row that cannot be meant."""
    if record is None:
        raise UserError(f"{row.where}: no record of {row.person!r} is here")
    points = {result.exercise: result.points for result in record.results}
    if row.exercise and row.exercise not in points:
        raise UserError(f"{row.where}: {row.exercise!r} was not graded")
    if not row.why:
        raise UserError(f"{row.where}: no reason: the column why is for the person to read")
    if (off := OFF.fullmatch(row.earned)) and int(off[1]) <= 100:
        return
    if row.earned and not row.exercise:
        raise UserError(
            f"{row.where}: earned is {row.earned!r} for no exercise: name one, or give -10%"
        )
    if row.earned and not (row.earned.isdecimal() and int(row.earned) <= points[row.exercise]):
        raise UserError(
            f"{row.where}: earned is {row.earned!r}: give 0 to {points[row.exercise]}, or -10%"
        )
