"""The hostile answers, and how they are written down.

Those that attack the grader are in `tests/attacks/`, those that attack what one exercise claims in
the folder `attacks` of its module's tests.

An attack is an answer (NAME.py), a notebook (NAME.ipynb), or a table [NAME] in the TOML file of its
exercise: edits of the solution, as wrong answers are. Its head describes it: in a .py the comment
lines after the `# %%answer ID` line, in a notebook "attack" in its metadata, in a table its keys:

    row          of the list of tricks that it belongs to; the number in its name if it has none
    tries        what it does
    unprotected  what happens to a grader without protection
    expect       the points that it honestly earns, a number or "full"; 0 if it has none
    on           what it is built on: `solution`, the course's; another attack; or a file in
                 `tests/attacks/tricks/`, which several have in common

The text of a .py follows those that it is built on, and what it defines takes the place of theirs.
Edits are edits of what the table is built on, the solution if nothing else is named.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpml.checks import find, ids
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.errors import UserError
from hpml.paths import CHECKOUT

TESTS = CHECKOUT / "tests"
_HEAD = re.compile(r"# (\w+): (.*)")
_KEYS = ("exercise", "row", "tries", "unprotected", "expect", "on")


@dataclass(frozen=True)
class Attack:
    """One hostile submission, or one that is right in a way that misleads a grader."""

    name: str
    path: Path
    exercise: str
    row: str
    tries: str
    unprotected: str
    expect: int  # points
    source: str  # the answer's text; "" of a notebook

    @property
    def is_right(self) -> bool:
        """Whether it should get full marks."""
        return self.expect == find(self.exercise).points


def read_all(tests: Path = TESTS) -> list[Attack]:
    """All attacks below a folder of tests, by name.

    Raises UserError, naming the file, where one lacks its head, or its edits do not fit.
    """
    paths = sorted([*tests.glob("attacks/*"), *tests.glob("modules/m*/attacks/*")])
    found = {each.name: each for path in paths for each in _drafts(path)}
    if not found:
        raise UserError(f"{tests}: there is no attack in it")
    return [_attack(found[name], found) for name in sorted(found)]


@dataclass(frozen=True)
class _Draft:
    """An attack as its file has it."""

    name: str
    path: Path
    head: dict[str, Any]
    own: str = ""  # text that follows what it is built on
    edits: tuple[wrong_answers.Edit, ...] = ()  # of what it is built on

    @property
    def where(self) -> str:
        return f"{self.path.name}: {self.name}"

    @property
    def tricks(self) -> Path:
        """The folder of what several attacks have in common: the grader's own has it."""
        above = self.path.parents
        return (above[3] if above[2].name == "modules" else above[1]) / "attacks" / "tricks"

    @property
    def has_text(self) -> bool:
        return self.path.suffix != ".ipynb"


def _drafts(path: Path) -> Iterator[_Draft]:
    if path.suffix == ".ipynb":
        head = json.loads(path.read_text(encoding="utf-8"))["metadata"]["attack"]
        yield _Draft(path.stem, path, head)
    elif path.suffix == ".py":
        head, own = _head(path.read_text(encoding="utf-8"))
        yield _Draft(path.stem, path, head, own)
    elif path.suffix == ".toml":
        for name, table in wrong_answers.read_tables(path).items():
            where = f"{path.name}: {name}"
            if not isinstance(table, dict):
                raise UserError(f"{where}: expected a table [{name}], found {table!r}")
            edits = wrong_answers.take_edits(table, where)
            if not edits:
                raise UserError(f"{where}: expected old and new, or a diff")
            yield _Draft(
                name, path, {"on": "solution", **table, "exercise": path.stem}, edits=edits
            )


def _attack(draft: _Draft, drafts: Mapping[str, _Draft]) -> Attack:
    head = {"row": draft.name.partition("_")[0].lstrip("0"), "expect": 0, **draft.head}
    if unknown := sorted(head.keys() - _KEYS):
        raise UserError(f"{draft.where}: unknown key {unknown[0]!r}: use {', '.join(_KEYS)}")
    try:
        exercise = head["exercise"]
        if exercise not in ids():
            raise ValueError(f"no exercise is called {exercise!r}")
        return Attack(
            name=draft.name,
            path=draft.path,
            exercise=exercise,
            row=str(head["row"]),
            tries=head["tries"],
            unprotected=head["unprotected"],
            expect=find(exercise).points if head["expect"] == "full" else int(head["expect"]),
            source=f"%%answer {exercise}\n{_text(draft, drafts)}" if draft.has_text else "",
        )
    except (KeyError, ValueError) as error:
        raise UserError(f"{draft.where}: its head is not that of an attack: {error!r}") from None


def _text(draft: _Draft, drafts: Mapping[str, _Draft]) -> str:
    """The answer without its `%%answer` line."""
    on = draft.head.get("on", "").replace(",", " ").split()
    texts = [_base(name, draft, drafts) for name in on]
    if draft.edits:
        return wrong_answers.edited(_joined(texts), draft.edits, draft.where, " and ".join(on))
    return _joined([*texts, draft.own])


def _base(name: str, draft: _Draft, drafts: Mapping[str, _Draft]) -> str:
    trick = draft.tricks / f"{name}.py"
    if name == "solution":
        return wrong_answers.solution(_course(), draft.head["exercise"]).partition("\n")[2]
    if name in drafts and name != draft.name:
        return _text(drafts[name], drafts)
    if trick.exists():
        return trick.read_text(encoding="utf-8")
    raise UserError(f"{draft.where}: on: {name} is neither the solution nor an attack nor a trick")


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(texts)


@functools.cache
def _course() -> schedule.Course:
    return schedule.load()


def _head(text: str) -> tuple[dict[str, str], str]:
    """The head of a .py, and the lines after it."""
    first, *lines = text.splitlines(keepends=True)
    head, key = {"exercise": first.removeprefix("# %%answer ").strip()}, ""
    for number, line in enumerate(lines):
        if match := _HEAD.fullmatch(line.rstrip()):
            key, head[match[1]] = match[1], match[2]
        elif line.startswith("# ") and key:
            head[key] += line.rstrip()[1:]
        else:
            return head, "".join(lines[number:])
    return head, ""
