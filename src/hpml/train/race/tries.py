"""Tries as they are kept: a file of JSON lines, to which lines are only ever added.

A try has a line when it begins and one when it has ended, whatever way it ended; so one whose
process was killed has the first alone. Whatever else is in the file is skipped.
"""

import dataclasses
import fcntl
import json
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from hpml.errors import UserError
from hpml.files.sanitize import one_line
from hpml.paths import home
from hpml.train.race.goals import Goal
from hpml.train.race.switches import Switches

BEGAN, REACHED, BELOW, INTERRUPTED, FAILED = "began", "reached", "below", "interrupted", "failed"
STATUSES = (BEGAN, REACHED, BELOW, INTERRUPTED, FAILED)
LARGEST = 16 << 20  # bytes of a file that is read
MOST_POINTS = 1000


@dataclass(frozen=True)
class Point:
    """A test: `accuracy`, in [0, 1], after so many training images and seconds."""

    images: int
    seconds: float
    accuracy: float


@dataclass(frozen=True)
class Try:
    """A try for the goal named `goal`, whose accuracy was `accuracy`.

    `first_step` is in seconds, and among those of the points; `busy` is the share of all cores that
    other programs used just before. `why` is what a failure says.
    """

    goal: str
    accuracy: float
    switches: Switches
    status: str = BEGAN
    points: tuple[Point, ...] = ()
    synthetic: bool | None = None  # None: it failed before it had read any image
    device: str = ""
    cores: float = 0.0
    busy: float = 0.0
    first_step: float = math.nan
    why: str = ""
    began: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat("T", "seconds"))
    id: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def seconds(self) -> float:
        """To the accuracy; infinite where it was not reached."""
        return self.points[-1].seconds if self.status == REACHED else math.inf

    @property
    def images(self) -> int:
        """Trained on so far, an image counted as often as it was seen."""
        return self.points[-1].images if self.points else 0

    @property
    def images_per_second(self) -> float:
        """Tests included; nan before the first."""
        return self.images / self.points[-1].seconds if self.points else math.nan

    @property
    def best_accuracy(self) -> float:
        return max((point.accuracy for point in self.points), default=math.nan)

    def record(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        plain = dataclasses.asdict(self) | {"race": 1}
        plain["points"] = [[p.images, p.seconds, p.accuracy] for p in self.points]
        plain["first_step"] = None if math.isnan(self.first_step) else self.first_step
        return plain


def try_of(record: Any) -> Try:
    """What `Try.record` made. Raises ValueError where it is anything else.

    Also of lines that somebody else wrote: every value is of its type and finite, and text is safe
    to show.
    """
    if not isinstance(record, Mapping) or record.get("race") != 1:
        raise ValueError("not a try")
    status, synthetic = record.get("status"), record.get("synthetic")
    if status not in STATUSES or synthetic not in (None, True, False):
        raise ValueError(f"status {status!r}")
    points = record.get("points")
    if not isinstance(points, list) or len(points) > MOST_POINTS:
        raise ValueError("points")
    points = tuple(_point(each) for each in points)
    if any(a.seconds >= b.seconds or a.images >= b.images for a, b in pairwise(points)):
        raise ValueError("points out of order")
    accuracy = _number(record.get("accuracy"), most=1)
    if status == REACHED and not (points and points[-1].accuracy >= accuracy):
        raise ValueError("reached, and no point says so")
    first = record.get("first_step")
    return Try(
        goal=_text(record.get("goal"), 20),
        accuracy=accuracy,
        switches=_switches(record.get("switches")),
        status=status,
        points=points,
        synthetic=None if synthetic is None else bool(synthetic),
        device=_text(record.get("device"), 40),
        cores=_number(record.get("cores")),
        busy=_number(record.get("busy")),
        first_step=math.nan if first is None else _number(first),
        why=_text(record.get("why"), 300),
        began=_text(record.get("began"), 40),
        id=_text(record.get("id"), 20),
    )


def file() -> Path:
    """The learner's own file."""
    folder = home() / "race"
    folder.mkdir(exist_ok=True)
    return folder / "tries.jsonl"


def append(one: Try, path: Path | None = None) -> None:
    """Add a line. Safe for several processes at the same time, and after a line that is torn.

    Raises UserError where the file cannot be written.
    """
    path = path or file()
    line = json.dumps(one.record(), allow_nan=False).encode() + b"\n"
    try:
        with open(path, "ab+") as lines:
            fcntl.flock(lines, fcntl.LOCK_EX)
            end = lines.seek(0, os.SEEK_END)
            if end:
                lines.seek(end - 1)
                line = line if lines.read(1) == b"\n" else b"\n" + line
            lines.write(line)
    except OSError as error:
        raise UserError(
            f"race: {path} cannot be written ({error.strerror}): name another folder by HPML_HOME"
        ) from None


def read(path: Path | None = None) -> tuple[list[Try], int]:
    """The tries in the order in which they began, and how many lines are none and were skipped."""
    path = path or file()
    try:
        with open(path, "rb") as opened:
            lines = opened.read(LARGEST).splitlines()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise UserError(f"race: {path} cannot be read ({error.strerror}): move it away") from None
    found: dict[str, Try] = {}
    skipped = 0
    for line in filter(None, map(bytes.strip, lines)):
        try:
            one = try_of(json.loads(line))
        except (ValueError, UserError, RecursionError):
            skipped += 1
            continue
        found[one.id] = one  # a later line of the same try takes the place of the earlier one
    return list(found.values()), skipped


def comparable(tries: Sequence[Try], goal: Goal, synthetic: bool | None) -> list[Try]:
    """Those for this goal, on images of this kind; with None on those of the latest of them.

    A try that failed before it had read an image belongs to both kinds.
    """
    same = [one for one in tries if (one.goal, one.accuracy) == (goal.name, goal.accuracy)]
    if synthetic is None:
        kinds = [one.synthetic for one in same if one.synthetic is not None]
        synthetic = kinds[-1] if kinds else None
    return [one for one in same if one.synthetic in (None, synthetic)]


def best(tries: Sequence[Try]) -> Try | None:
    """The one that reached its goal first; None where none did."""
    reached = [one for one in tries if one.status == REACHED]
    return min(reached, key=lambda one: one.seconds, default=None)


def _point(value: Any) -> Point:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError("a point has three numbers")
    images, seconds, accuracy = value
    if type(images) is not int or not 0 < images < 2**53:
        raise ValueError("images")
    return Point(images, _number(seconds), _number(accuracy, most=1))


def _number(value: Any, most: float = 1e9) -> float:
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is not a number from 0 to {most:g}")
    return float(value)


def _text(value: Any, limit: int) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return one_line(value, limit)


def _switches(value: Any) -> Switches:
    kinds = {each.name: type(each.default) for each in dataclasses.fields(Switches)}
    if not isinstance(value, Mapping) or value.keys() != kinds.keys():
        raise ValueError("switches")
    made: dict[str, Any] = {}
    for name, kind in kinds.items():
        given = value[name]
        if kind is float and type(given) is int:
            given = float(given)
        if type(given) is not kind:
            raise ValueError(name)
        made[name] = given
    return Switches(**made)  # UserError for a value that cannot be
