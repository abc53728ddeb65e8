"""A learner's own answers, found in the course's exercises by an exercise's id, without a file.

Each exercise is in two files, a notebook and a script. A learner writes in either.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from hpml.answer import Answer, read, read_all
from hpml.checks import registry
from hpml.course.schedule import Course
from hpml.errors import UserError


def files(course: Course, exercise: str | None = None) -> tuple[Path, ...]:
    """The exercise files that are there, of the exercise's module or of all; paths as one types
    them here. UserError where there is none, or no such exercise."""
    modules = course.modules if exercise is None else (course.module_of(exercise),)
    wanted = [m.exercise_notebook.with_suffix(end) for m in modules for end in (".ipynb", ".py")]
    found = tuple(as_typed(course.root / path) for path in wanted if (course.root / path).is_file())
    if not found:
        missing = wanted[0] if exercise else wanted[0].parent
        raise UserError(f"{missing} is missing: name the file that your answer is in")
    return found


def find(course: Course, exercise: str) -> Answer:
    """The answer to an exercise: of its notebook and its script, the one that is written.

    Where both are, the file that was saved last counts, and where none is, its stub.
    """
    newest_first = _newest_first(files(course, exercise))
    stub: Answer | None = None
    for path in newest_first:
        for answer in read(path):
            if answer.exercise == exercise:
                if not answer.is_stub:
                    return answer
                stub = stub or answer
    if stub is None:
        (stub,) = read_all(newest_first[:1], exercise)  # it says what is there instead
    return stub


def written(course: Course) -> tuple[Answer, ...]:
    """All answers but stubs, in the course's order; where both files of a module have one, that of
    the file that was saved last."""
    found: dict[str, Answer] = {}
    for path in _newest_first(files(course)):
        for answer in read(path):
            if not answer.is_stub:
                found.setdefault(answer.exercise, answer)
    order = [entry.id for module in course.modules for entry in module.exercises]
    return tuple(found[name] for name in order if name in found)


def split(course: Course, arguments: Iterable[Path]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """What was typed, as exercise ids and files. An id is a word that names no file here.

    UserError for a word that is neither, with the ids that are like it.
    """
    arguments = tuple(arguments)
    words = [a for a in arguments if not a.suffix and len(a.parts) == 1 and not a.exists()]
    named = tuple(str(word) for word in words)
    for name in named:
        registry.module_of(name)
        course.module_of(name)
    return named, tuple(a for a in arguments if str(a) not in named)


def _newest_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)


def as_typed(path: Path) -> Path:
    """The path from the folder that we are in, where the file is below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else Path(relative)
