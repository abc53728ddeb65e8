"""A board in a folder that a class shares: a file for each learner, with the best try of each goal.

Everybody may write to such a folder, so a file in it is only ever looked at: a link, a device, a
file that is large or torn, and text that would redraw a terminal harm nobody. What is in it is what
its learner's own machine reported, and no proof.
"""

import json
import os
import re
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.errors import UserError
from hpml.files import atomic
from hpml.files.sanitize import one_line
from hpml.paths import home
from hpml.train.race import tries
from hpml.train.race.goals import Goal
from hpml.train.race.tries import Try

ENDING = ".race.json"
LARGEST = 256 << 10  # bytes of a learner's file
MOST_FILES = 2000
MOST_TRIES = 20
NAME = 24  # characters


@dataclass(frozen=True)
class Entry:
    """A learner's best try for a goal, after so many tries for it."""

    name: str
    best: Try
    tried: int


def publish(folder: Path, name: str, kept: Sequence[Try]) -> Path | None:
    """Write this learner's file: the best of each kind of comparable tries among `kept`.

    The file is replaced as a whole. Returns it; None where no try has reached its goal. Raises
    UserError where the folder is not there or cannot be written.
    """
    shown = one_line(name, NAME)
    if not shown.strip():
        raise UserError("--name is empty: what are you called on the board?")
    kinds: dict[tuple[str, float, bool | None], list[Try]] = {}
    for one in kept:
        kinds.setdefault((one.goal, one.accuracy, one.synthetic), []).append(one)
    found = [(tries.best(same), len(same)) for same in kinds.values()]
    found = [(one.record() | {"tried": count}) for one, count in found if one][-MOST_TRIES:]
    if not found:
        return None
    path = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', shown).strip('-') or 'x'}-{_own()}{ENDING}"
    content = json.dumps({"race": 1, "name": shown, "tries": found}, allow_nan=False)
    try:
        for old in folder.glob(f"*-{_own()}{ENDING}"):  # of the same learner, by another name
            if old != path:
                old.unlink(missing_ok=True)
        atomic.write_text(path, content + "\n")
    except OSError as error:
        raise UserError(
            f"--board {folder} cannot be written ({error.strerror}): name a folder that is there"
        ) from None
    return path


def read(folder: Path, goal: Goal, synthetic: bool) -> tuple[list[Entry], list[str]]:
    """The learners' best for this goal on images of this kind, the quickest first; and the names of
    files that cannot be read. Raises UserError where the folder cannot be.
    """
    try:
        names = sorted(each for each in os.listdir(folder) if each.endswith(ENDING))
    except OSError as error:
        raise UserError(
            f"--board {folder}: {error.strerror}: name a folder that is there"
        ) from None
    found, unreadable = [], []
    for name in [each for each in names if not each.startswith(".")][:MOST_FILES]:
        try:
            found += _entries(folder / name, goal, synthetic)
        except (OSError, ValueError, UserError, RecursionError):
            unreadable.append(one_line(name, 60))
    return sorted(found, key=lambda entry: (entry.best.seconds, entry.name)), unreadable


def _entries(path: Path, goal: Goal, synthetic: bool) -> list[Entry]:
    """What a learner's file has for the goal: one entry or none. Raises where it is none."""
    # Opened without waiting for a pipe's other end, and nowhere but here.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("no file")
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError("too large")
    content = json.loads(data)
    if not isinstance(content, dict) or content.get("race") != 1:
        raise ValueError("not a learner's file")
    name, records = content.get("name"), content.get("tries")
    if not isinstance(name, str) or not isinstance(records, list) or len(records) > MOST_TRIES:
        raise ValueError("not a learner's file")
    entries = []
    for record in records:
        one = tries.try_of(record)
        tried = record.get("tried")
        if type(tried) is not int or not 1 <= tried < 10**6:
            raise ValueError("tried")
        wanted = (goal.name, goal.accuracy, synthetic, tries.REACHED)
        if (one.goal, one.accuracy, one.synthetic, one.status) == wanted:
            entries.append(Entry(one_line(name, NAME).strip() or "?", one, tried))
    return entries[:1]


def _own() -> str:
    """What is this learner's alone, kept in HPML_HOME: two with one name have a file each."""
    path = home() / "race" / "learner"
    path.parent.mkdir(exist_ok=True)
    atomic.create(path, secrets.token_hex(4).encode())
    kept = path.read_text("utf-8", "replace").strip()
    return kept if re.fullmatch(r"[0-9a-f]{8}", kept) else "00000000"
