"""Right answers as different people write them: nothing unusual in them may cost a point.

Each is a file in the folder `honest` of its module's tests, the whole of it one answer cell. Its
first line names the exercise, as in a percent script, `# %%answer ID`; its second is `# unusual: `
and what few write.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.checks.registry import ids
from hpml.errors import UserError
from hpml.paths import CHECKOUT

MODULES = CHECKOUT / "tests" / "modules"
_HEAD = re.compile(r"# %%answer (?P<exercise>\w+)\n# unusual: (?P<unusual>.+)\n")


@dataclass(frozen=True)
class Honest:
    """A right answer. `source` is its cell, line 1 being the `%%answer` line."""

    name: str
    exercise: str
    unusual: str
    source: str


def read_all(modules: Path = MODULES) -> tuple[Honest, ...]:
    """All right answers, by module and name. Raises UserError where one lacks its head."""
    return tuple(_read(path) for path in sorted(modules.glob("m*/honest/*.py")))


def _read(path: Path) -> Honest:
    text = path.read_text(encoding="utf-8")
    head = _HEAD.match(text)
    if head is None or head["exercise"] not in ids():
        raise UserError(f"{path}: it begins with `# %%answer ID`, then `# unusual: ` and what is")
    return Honest(path.stem, head["exercise"], head["unusual"], text.removeprefix("# "))


def in_turn(answers: Sequence[Honest]) -> list[list[Honest]]:
    """The answers as submissions with at most one for each exercise, as few as can be."""
    submissions: list[list[Honest]] = []
    for answer in answers:
        for submission in submissions:
            if answer.exercise not in [one.exercise for one in submission]:
                submission.append(answer)
                break
        else:
            submissions.append([answer])
    return submissions
