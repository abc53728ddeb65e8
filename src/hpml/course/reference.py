"""The course's own answer to an exercise, for who has passed it or has read all of its hints.

It is read from solutions/, which a class's release does not have.
"""

import difflib
import re
from dataclasses import dataclass

from hpml.answer import Answer, read
from hpml.course import hints, own_answers, progress
from hpml.course.schedule import Course
from hpml.errors import UserError

_MARKS = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[ \t]*\n", re.MULTILINE)
NOTED = (
    "You have read it before your own has passed. progress.json has a note of that, for you "
    "alone: it marks nothing."
)


@dataclass(frozen=True)
class Reference:
    """The course's answer, and what leads to it from the learner's own."""

    exercise: str
    source: str  # with its `%%answer` line, without the marks of what a stub leaves out
    diff: str  # empty where there is nothing to compare it with, or no difference
    notes: tuple[str, ...]  # what else is to be said

    def as_text(self) -> str:
        return self._joined("{}", "{}")

    def as_markdown(self) -> str:
        return self._joined("```python\n{}\n```", "```diff\n{}\n```")

    def _joined(self, code: str, diff: str) -> str:
        parts = [f"The course's own answer to {self.exercise}:", code.format(self.source.rstrip())]
        if self.diff:
            parts += ["From yours (-) to it (+):", diff.format(self.diff)]
        return "\n\n".join([*parts, *self.notes])


def opened(course: Course, exercise: str, hint: str, own: str | None = None) -> Reference:
    """The course's answer, beside `own`, the text of an answer; by default the one in exercises/.

    UserError, which says what is still to do, where neither the exercise is passed nor the last
    hint read (`hint` is what one types for the next), and where the course has no answers.
    """
    known = hints.texts(exercise)
    source = _source(course, exercise)
    left = progress.open_answer(exercise, known)
    if left:
        hints_left = "1 hint is left" if left == 1 else f"{left} hints are left"
        raise UserError(f"{exercise} has not passed yet, and {hints_left}: {hint}")
    notes = [] if progress.read()[exercise]["passed"] else [NOTED]
    own = _own(course, exercise) if own is None else own
    difference = _difference(own, source) if own else ""
    if own and not difference:
        notes.insert(0, "Yours is the same, line by line.")
    return Reference(exercise, source, difference, tuple(notes))


def answer(course: Course, exercise: str) -> Answer:
    """The answer cell in solutions/, as it stands there. UserError where the course has none."""
    path = course.root / course.module_of(exercise).solution.with_suffix(".py")
    if not path.is_file():
        raise UserError(f"{exercise}: this course was handed out without its answers")
    return next(found for found in read(path) if found.exercise == exercise)


def _source(course: Course, exercise: str) -> str:
    return _MARKS.sub("", answer(course, exercise).source)


def _own(course: Course, exercise: str) -> str | None:
    try:
        found = own_answers.find(course, exercise)
    except UserError:  # it was written elsewhere
        return None
    return None if found.is_stub else found.source


def _difference(own: str, source: str) -> str:
    """A diff of what is below the magic lines."""
    yours, ours = (text.partition("\n")[2].strip().splitlines() for text in (own, source))
    lines = difflib.unified_diff(yours, ours, "yours", "the course's", n=2, lineterm="")
    return "\n".join(lines)
