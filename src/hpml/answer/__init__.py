"""An answer: the cell that starts with `%%answer ID`, found in a learner's files.

Reads notebooks (.ipynb) and percent scripts (.py, where the magic is a comment, `# %%answer ID`).
Nothing is executed here; `hpml.answer.module` makes an answer a module.
"""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from hpml.answer import cells
from hpml.errors import UserError

MAGIC = re.compile(r"%%answer(?:[ \t]+(?P<id>\S+))?[ \t]*(?P<rest>.*)")
# What people type when they mean it: `# %%answer ddp`, `%% answer ddp`, `%Answer: ddp`
_NEAR = re.compile(r"#*\s*%{1,3}\s*answers?\b\W*(?P<id>[\w-]*)(?P<rest>.*)", re.IGNORECASE)


class NotCounted(UserError):
    """A cell seems to be the answer to `exercise`, and does not begin with `%%answer ID`."""

    def __init__(self, message: str, exercise: str) -> None:
        super().__init__(message)
        self.exercise = exercise  # empty where no id is there


def exercise_of(source: str) -> str | None:
    """The exercise id on a cell's first line; None where it is not a `%%answer ID` line."""
    match = MAGIC.fullmatch(source.partition("\n")[0].rstrip())
    return match["id"] if match and not match["rest"] else None


def as_python(source: str) -> str:
    """A cell's source with its magic line as a comment, so that lines keep their numbers."""
    first, newline, rest = source.partition("\n")
    return f"# {first.strip()}{newline}{rest}" if first.lstrip().startswith("%%") else source


def syntax_error(source: str) -> SyntaxError | None:
    """What is wrong with an answer's source as Python; None if it can be compiled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(as_python(source), "answer", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or type(error).__name__)
    return None


@dataclass(frozen=True)
class Answer:
    """One answer cell. Line 1 of `source` is its `%%answer` line, as JupyterLab counts lines."""

    exercise: str
    source: str
    file: Path
    cell: int  # counts all cells of the file from 1
    # Of a .py file: the line that the `%%answer` line is on; 0: the file is the answer as a whole
    first_line: int | None

    @property
    def where(self) -> str:
        """The place in words: `ring.ipynb, cell 4`, or `ring.py, line 31`."""
        place = f"cell {self.cell}" if self.first_line is None else f"line {self.first_line or 1}"
        return f"{self.file.name}, {place}"

    def place(self, line: int) -> str:
        """Where a line of the answer is: `ring.py:35` in a script, `line 5` in a notebook."""
        if self.first_line is None:
            return f"line {line}"
        return f"{self.file.name}:{self.first_line + line - 1}"

    def syntax_error(self) -> SyntaxError | None:
        """The answer's syntax error, its lines those of the answer; None if there is none."""
        return syntax_error(self.source)

    @property
    def is_stub(self) -> bool:
        """Whether the placeholder line of the stub is still there."""
        return re.search(r"^\s*raise NotImplementedError\(\)\s*$", self.source, re.M) is not None


def read(path: Path) -> tuple[Answer, ...]:
    """All answers in a file, in order. UserError where the file cannot be read or names one twice.

    A file without any answer gives an empty tuple.
    """
    data = _data(path)
    lines = enumerate(data.decode(errors="replace").splitlines(), 1) if path.suffix == ".py" else ()
    lines = iter(lines)
    answers = tuple(
        answer
        for number, source, kind in _cells(path, data)
        if kind == "code" and (answer := of_cell(path, number, source, lines))
    )
    _refuse_twice(answers)
    return answers


def _cells(path: Path, data: bytes) -> tuple[cells.Cell, ...]:
    try:
        return tuple(cells.of_notebook(data) if path.suffix == ".ipynb" else cells.of_script(data))
    except cells.Unreadable as error:
        raise UserError(f"{path}: {error}") from None


def read_all(paths: Iterable[Path], exercise: str | None = None) -> tuple[Answer, ...]:
    """The answers of several files; with `exercise`, that one only.

    A .py file without any `%%answer` line counts, as a whole, as the answer to `exercise`.
    UserError where nothing is found, or one exercise is answered in two places.
    """
    paths = tuple(paths)
    answers: list[Answer] = []
    for path in paths:
        found = read(path)
        if not found and exercise and path.suffix == ".py":
            text = _data(path).decode("utf-8-sig")
            found = (Answer(exercise, f"%%answer {exercise}\n{text}", path, 1, 0),)
        answers += [answer for answer in found if exercise in (None, answer.exercise)]
    if not answers:
        _refuse_text_cells(paths, exercise)
        files = ", ".join(path.name for path in paths)
        if exercise is None:
            raise UserError(f"{files}: no cell starts with %%answer ID, so there is no answer here")
        raise UserError(f"{files}: no cell starts with %%answer {exercise}")
    _refuse_twice(answers)
    return tuple(answers)


def _data(path: Path) -> bytes:
    if path.suffix not in (".ipynb", ".py"):
        raise UserError(f"{path}: expected a notebook (.ipynb) or a script (.py)")
    try:
        if path.stat().st_size > cells.LARGEST[path.suffix]:
            most = cells.LARGEST[path.suffix] // 10**6
            raise UserError(f"{path}: larger than {most} MB: clear its outputs first")
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def of_cell(
    path: Path, number: int, source: str, script: Iterable[tuple[int, str]] = ()
) -> Answer | None:
    """The answer in a code cell; None where no line of it is an `%%answer` line, or nearly one.

    `number` counts the file's cells from 1. `script` iterates over a script's numbered
    lines, the same iterator for all cells. NotCounted for a malformed or misplaced magic.
    """
    lines = source.splitlines()
    while lines and not lines[0].strip():
        del lines[0]
    at = next((index for index, line in enumerate(lines) if line.startswith("%%answer")), None)
    if at is None:
        _refuse_near(path, number, lines)
        return None
    match = MAGIC.fullmatch(lines[at])
    if match is None or not match["id"] or match["rest"]:
        near = _near(lines[at])
        raise NotCounted(_malformed(path, number, lines[at]), near["id"] if near else "")
    # Cells come in the file's order, so the search goes on where it stopped for the last answer.
    first_line = next(
        (n for n, line in script if line.lstrip("# ").rstrip() == lines[at].rstrip()), None
    )
    answer = Answer(match["id"], "\n".join(lines) + "\n", path, number, first_line)
    if at:
        raise NotCounted(
            f"{answer.where}: {lines[at]} must be the first line of its cell, it is line {at + 1}",
            answer.exercise,
        )
    return answer


def of_text_cell(path: Path, cell: cells.Cell) -> Answer | None:
    """What seems to be an answer in a Markdown or raw cell, where it does not count.

    Its magic may be nearly one: JupyterLab makes a heading of it, `# %%answer ddp`. A line in prose
    with nothing below it is none.
    """
    lines = cell.source.splitlines() if cell.kind != "code" else []
    for at, line in enumerate(lines):
        near = _near(line)
        if _names_one(near) and any(map(str.strip, lines[at + 1 :])):
            source = "\n".join([f"%%answer {near['id']}", *lines[at + 1 :]]) + "\n"
            return Answer(near["id"], source, path, cell.number, None)
    return None


def text_cell(answer: Answer, kind: str) -> str:
    """Why an answer in a Markdown or raw cell does not count, and what to do."""
    return f"{answer.where}: the answer is in a {kind} cell: make it a code cell"


def _refuse_text_cells(paths: Iterable[Path], exercise: str | None) -> None:
    for path in paths:
        for cell in _cells(path, _data(path)):
            text = of_text_cell(path, cell)
            if text and exercise in (None, text.exercise):
                raise NotCounted(text_cell(text, cell.kind), text.exercise)


def _refuse_near(path: Path, number: int, lines: Iterable[str]) -> None:
    for line in lines:
        near = _near(line)
        if _names_one(near):
            raise NotCounted(_malformed(path, number, line), near["id"])


def _near(line: str) -> re.Match[str] | None:
    # Stripped first: a pattern that skips blanks in two places takes hours for a million of them
    return _NEAR.fullmatch(line.strip())


def _names_one(near: re.Match[str] | None) -> TypeGuard[re.Match[str]]:
    """Whether there is an exercise id, and nothing after it."""
    return bool(near and near["id"] and not near["rest"].strip())


def _malformed(path: Path, number: int, line: str) -> str:
    return f"{path.name}, cell {number}: {line!r}: expected %%answer and one exercise id"


def _refuse_twice(answers: Iterable[Answer]) -> None:
    seen: dict[str, Answer] = {}
    for answer in answers:
        first = seen.setdefault(answer.exercise, answer)
        if first is not answer:
            raise UserError(
                f"%%answer {answer.exercise} is there twice, in {first.where} and in "
                f"{answer.where}: keep one of them"
            )
