"""The wrong answers that people really write, each as an edit of the solution.

They are in `tests/modules/mNN_name/checks/wrong_<exercise id>.toml`, a table for each, in order:

    [mean_of_means]
    wrong = "shards are of different lengths, and each counts alike"  # what people do there
    hint = "weights"  # of the first claim to fail
    old = 'total / count'  # stands in the solution exactly once
    new = 'total.mean()'

Edits of whole lines are a `diff`; a line that begins with `@@` parts one edit from the next:

    diff = '''
     def mean(total, count):
    -    return total / count
    +    return total.mean()
    '''

An edit's lines with " " and "-" stand in the solution exactly once. If the edits would be longer
than the answer, its whole text is `source` instead. Optional: `claim`, the name of the first claim
to fail; `needs`, what a machine must have to detect the mistake; and `world`, the smallest number
of ranks that shows it, if two do not.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpml import answer as answers
from hpml.course.schedule import Course, Module
from hpml.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MARK = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n", re.MULTILINE)
_OPTIONAL = {"claim": "", "needs": "", "world": 2, "source": ""}
_TEXTS = ("wrong", "hint", "claim", "needs", "source")
_EDIT = {"old", "new"}
_HUNKS = re.compile(r"^@@.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Edit:
    """A text of the solution, and its replacement."""

    old: str
    new: str


@dataclass(frozen=True)
class WrongAnswer:
    """One wrong answer to an exercise: its table, with either edits or a `source`."""

    exercise: str
    name: str
    wrong: str
    hint: str
    claim: str
    needs: str
    world: int
    edits: tuple[Edit, ...]
    source: str

    def answer(self, solution: str) -> str:
        """The wrong answer's cell, with its `%%answer` line, made from the solution's.

        Raises UserError if an old text does not occur exactly once, or two of them overlap.
        """
        if self.source:
            return f"%%answer {self.exercise}\n{self.source}"
        return edited(solution, self.edits, self.name)


def edited(text: str, edits: Sequence[Edit], name: str, base: str = "the solution") -> str:
    """The text with all edits made at once.

    Raises UserError, naming the answer and its base, if an old text does not occur in it exactly
    once, or two of them overlap.
    """
    made, end = "", 0
    places = [(_find(edit, text, name, base), edit) for edit in edits]
    for at, edit in sorted(places, key=lambda place: place[0]):
        if at < end:
            raise UserError(f"{name}: {_quoted(edit.old)} overlaps with another old text")
        made += text[end:at] + edit.new
        end = at + len(edit.old)
    return made + text[end:]


def _find(edit: Edit, text: str, name: str, base: str) -> int:
    first = text.find(edit.old)
    if first < 0:
        raise UserError(f"{name}: {_quoted(edit.old)} is not in {base}")
    if text.find(edit.old, first + 1) >= 0:
        raise UserError(f"{name}: {_quoted(edit.old)} is more than once in {base}")
    return first


def path(module: Module, exercise: str) -> Path:
    """The file of an exercise's wrong answers, relative to the folder of course.toml."""
    return Path("tests/modules", f"m{module.stem}", "checks", f"wrong_{exercise}.toml")


def read(course: Course, exercise: str) -> tuple[WrongAnswer, ...]:
    """An exercise's wrong answers, in the file's order; none if there is no file.

    Raises UserError, naming file and table, if the format is not the one described above.
    """
    file = path(course.module_of(exercise), exercise)
    try:
        tables = read_tables(course.root / file)
    except FileNotFoundError:
        return ()
    return tuple(_of_table(exercise, name, tables[name], file.name) for name in tables)


def read_tables(file: Path) -> dict[str, Any]:
    """What a TOML file has at its top level. Raises UserError, naming it, if it is not TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file.name}: not valid TOML: {error}") from None


def solution(course: Course, exercise: str) -> str:
    """The solution's answer cell without nbgrader's marks, as a learner would write it.

    Raises UserError if the module's solutions have no such cell.
    """
    script = course.module_of(exercise).solution.with_suffix(".py")
    for answer in answers.read(course.root / script):
        if answer.exercise == exercise:
            return _MARK.sub("", answer.source)
    raise UserError(f"{script} has no %%answer {exercise}")


def _of_table(exercise: str, name: str, table: Any, file: str) -> WrongAnswer:
    where = f"{file}: {name}"
    if not isinstance(table, dict):
        raise UserError(f"{where}: expected a table [{name}], found {table!r}")
    known = {"wrong", "hint", "diff", *_EDIT, *_OPTIONAL}
    if unknown := sorted(set(table) - known):
        raise UserError(f"{where}: unknown key {unknown[0]!r}: use {', '.join(sorted(known))}")
    given: dict[str, Any] = _OPTIONAL | table
    for key in _TEXTS:
        if not isinstance(given.get(key), str):
            raise UserError(f"{where}: {key} is {given.get(key)!r}, expected a text")
    for key in ("wrong", "hint"):
        if not given[key].strip():
            raise UserError(f"{where}: {key} is empty")
    if given["world"] not in (1, 2, 3, 4):
        raise UserError(f"{where}: world is {given['world']!r}, expected a number from 1 to 4")
    edits = take_edits(given, where)
    if bool(edits) == bool(given["source"]):
        raise UserError(f"{where}: expected old and new, or a diff, or a source")
    given["wrong"] = " ".join(given["wrong"].split())
    return WrongAnswer(exercise, name, edits=edits, **given)


def take_edits(table: dict[str, Any], where: str) -> tuple[Edit, ...]:
    """Remove the edits from a table, `old` and `new` or a `diff`, and return them.

    Raises UserError, beginning with `where`, if it has both, or they change nothing.
    """
    single = {key: table.pop(key) for key in ("old", "new") if key in table}
    diff = table.pop("diff", "")
    if single and diff:
        raise UserError(f"{where}: expected old and new, or a diff, or a source")
    if not isinstance(diff, str) or not all(isinstance(text, str) for text in single.values()):
        raise UserError(f"{where}: old, new and diff are texts")
    edits = [Edit(**single)] if single.keys() == _EDIT else []
    edits += [_of_lines(hunk, where) for hunk in _HUNKS.split(diff) if hunk]
    if len(single) == 1 or any(edit.old in ("", edit.new) for edit in edits):
        raise UserError(
            f"{where}: an edit has an old text and a new one that differ; old is not ''"
        )
    return tuple(edits)


def _of_lines(hunk: str, where: str) -> Edit:
    """The edit of lines that begin with " ", "-" or "+"; an empty line stays as it is."""
    old = new = ""
    for line in hunk.splitlines(keepends=True):
        sign, text = (" ", line) if line == "\n" else (line[0], line[1:])
        if sign not in " -+":
            raise UserError(f"{where}: a line of a diff begins with {sign!r}: use ' ', '-' or '+'")
        old += text if sign in " -" else ""
        new += text if sign in " +" else ""
    return Edit(old, new)


def _quoted(text: str) -> str:
    """The first line of a text, in quotes, with dots if more follows."""
    first, *more = text.strip().splitlines() or [""]
    return repr(f"{first.strip()} …" if more else first.strip())
