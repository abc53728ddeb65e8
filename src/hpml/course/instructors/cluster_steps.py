"""The cluster in the clock: what a class submits, and what it reads in the log.

`cluster_steps.toml` has a table for each module with such a part; its comment has the format.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpml.course.instructors.wrong_answers import read_tables
from hpml.course.schedule import Course, Module
from hpml.errors import UserError

FILE = Path("src/hpml/course/instructors/cluster_steps.toml")  # below the folder of course.toml
_TEXTS = ("do", "type", "read")


@dataclass(frozen=True)
class Step:
    """One thing to do: a command, and what is to be seen then."""

    minutes: int
    do: str
    type: str  # the command, on a login node
    read: str
    log: tuple[str, ...]  # lines of the job's log, with … for what differs each time
    rehearse: str  # the command on a virtual cluster, where it is another one; ""


@dataclass(frozen=True)
class ClusterPart:
    """A module's part on the cluster, after the core section `after`."""

    after: str
    steps: tuple[Step, ...]

    @property
    def minutes(self) -> int:
        return sum(step.minutes for step in self.steps)


def read(course: Course, module: Module) -> ClusterPart | None:
    """A module's part on the cluster; None if it has none.

    Raises UserError, naming file, module and key, if the format is another one.
    """
    try:
        table = read_tables(course.root / FILE).get(module.id)
    except FileNotFoundError:
        return None
    if table is None:
        return None
    where = f"{FILE.name}: {module.id}"
    given = table if isinstance(table, dict) else {}
    after, steps = given.get("after"), given.get("steps")
    if not isinstance(after, str) or not isinstance(steps, list) or not steps:
        raise UserError(f'{where}: expected after = "a section", and steps')
    return ClusterPart(after, tuple(_step(each, f"{where}: a step") for each in steps))


def _step(table: Any, where: str) -> Step:
    given = {"log": [], "rehearse": "", **table} if isinstance(table, dict) else {}
    known = {"minutes", "log", "rehearse", *_TEXTS}
    if given.keys() != known:
        differs = ", ".join(sorted(given.keys() ^ known))
        raise UserError(f"{where}: missing or unknown {differs}: use {', '.join(sorted(known))}")
    if type(given["minutes"]) is not int or given["minutes"] < 1:
        raise UserError(f"{where}: minutes = {given['minutes']!r}, expected a whole number from 1")
    texts = [*(given[key] for key in (*_TEXTS, "rehearse")), *given["log"]]
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise UserError(f"{where}: {wrong[0]!r} is not a text")
    return Step(**{**given, "log": tuple(given["log"])})
