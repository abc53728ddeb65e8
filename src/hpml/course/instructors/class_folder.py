"""What a class has recorded in the folder that it shares; see `hpml.course.class_record`.

Everybody may write there, so a file is only ever looked at. A link, a pipe, a file of gigabytes or
a line of anything else harms nobody: what is read is bounded, and what is no line is counted.
"""

import os
import re
import stat
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import msgspec

from hpml.course.class_record import ENDING, LONGEST_NAME, Line
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.files.sanitize import one_line

LARGEST = 256 << 10  # bytes that are read of a file, from its end: about a thousand checks
LONGEST = 4096  # bytes of a line
MOST_FILES, MOST_ENTRIES = 1000, 20_000  # of the folder
MOST_BYTES = 32 << 20  # of all files, which take some seconds
AHEAD = timedelta(minutes=10)  # that a learner's clock may be before ours
EARLIEST = datetime.fromisoformat("2020-01-01T00:00:00+00:00")

_NAME = re.compile(rf"([0-9a-f]{{8}})-[0-9a-f]{{8}}{re.escape(ENDING)}")
_decoder = msgspec.json.Decoder(Line)


@dataclass(frozen=True)
class Learner:
    """One learner's checks, the earliest first; there is one at least."""

    label: str  # the name that was given, else the beginning of the file's name
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Recorded:
    """What a folder has. Ignored are lines that are none of ours, unread files that are none."""

    learners: tuple[Learner, ...]  # sorted by label
    ignored: int
    unread: int


def read(folder: Path, course: Course, now: datetime) -> Recorded:
    """All checks of the course's exercises until `now`, which has a time zone.

    Raises UserError where the folder cannot be read.
    """
    exercises = {exercise.id for module in course.modules for exercise in module.exercises}
    # The owner too: another's file with a learner's id in its name is not that learner's
    found: dict[tuple[str, int], list[Line]] = defaultdict(list)
    ignored = unread = size = 0
    names, more = _names(folder)
    for name in names:
        known = _NAME.fullmatch(name)
        opened = _end_of(folder / name) if known and size < MOST_BYTES else None
        if known is None or opened is None:
            unread += 1
            continue
        owner, data, whole = opened
        size += len(data)
        rows = data.split(b"\n")
        if not whole:
            ignored += 1  # lines before the end, and one that is cut
            rows = rows[1:]
        for row in filter(None, rows):
            line = _line(row, exercises, now)
            if line is None:
                ignored += 1
            else:
                found[known[1], owner].append(line)
    learners = {key: sorted(lines, key=lambda line: line.at) for key, lines in found.items()}
    return Recorded(_labelled(learners), ignored, unread + more)


def _names(folder: Path) -> tuple[list[str], int]:
    """The names to read, and how many more there are: the first of each owner, then the second, …

    So one who fills the folder does not hide the others.
    """
    try:
        with os.scandir(folder) as entries:
            some = islice(entries, MOST_ENTRIES)
            listed = [(e.name, _owner(e)) for e in some if e.name.endswith(ENDING)]
    except OSError as error:
        raise UserError(
            f"{folder}: {error.strerror}: name the folder that HPML_CLASS names for the class"
        ) from None
    turns: list[tuple[int, str]] = []
    of_owner: Counter[int] = Counter()
    for name, owner in sorted(listed):
        of_owner[owner] += 1
        turns.append((of_owner[owner], name))
    names = [name for _, name in sorted(turns)]
    return names[:MOST_FILES], len(names[MOST_FILES:])


def _owner(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except OSError:  # it went meanwhile
        return -1


def _end_of(path: Path) -> tuple[int, bytes, bool] | None:
    """A file's owner, its last bytes, and whether these are all. None where it is no file."""
    try:
        # Opened without waiting for a pipe's other end, and nowhere but here
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(number, "rb") as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                return None
            whole = status.st_size <= LARGEST
            if not whole:
                file.seek(status.st_size - LARGEST)
            return status.st_uid, file.read(LARGEST), whole
    except OSError:
        return None


def _line(row: bytes, exercises: set[str], now: datetime) -> Line | None:
    """A line that a check may have written, made safe to show; else None."""
    if len(row) > LONGEST:
        return None
    try:
        line = _decoder.decode(row)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if (
        line.exercise not in exercises
        or line.status not in ("passed", "failed", "not gradable")
        or line.holds > line.claims
        or line.earned > line.points
        or not EARLIEST < line.at < now + AHEAD
    ):
        return None
    return msgspec.structs.replace(
        line,
        at=min(line.at, now),
        cause=one_line(line.cause),
        claim=one_line(line.claim),
        name=one_line(line.name, LONGEST_NAME).strip(),
    )


def _labelled(learners: dict[tuple[str, int], list[Line]]) -> tuple[Learner, ...]:
    """Learners by the last name that each gave, else by as much of their id as tells them apart."""
    short = Counter(own[:4] for own, _ in learners)
    made = [
        Learner(lines[-1].name or (own[:4] if short[own[:4]] == 1 else own), tuple(lines))
        for (own, _), lines in learners.items()
    ]
    return tuple(sorted(made, key=lambda learner: (learner.label, learner.lines[0].at)))
