"""A page of all wrong answers: what is wrong in each, and what its learner reads.

For somebody who does not know the solutions, and asks of each row: do message, line and hint lead
to the fix, and is nothing in them false? One HTML file, without scripts, that loads nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from hpml.course import page_templates
from hpml.course.instructors.prove import Row


@dataclass(frozen=True)
class Group:
    """The wrong answers to one exercise."""

    exercise: str
    title: str
    rows: tuple[Row, ...]

    @property
    def bad(self) -> int:
        """How many do not fail as they should."""
        return sum(not row.good for row in self.rows)

    @property
    def without_line(self) -> int:
        """How many are told of no line of their answer."""
        failures = [row.first_failure for row in self.rows if row.first_failure]
        return sum(not failure.line for failure in failures)


def write(rows: Iterable[Row]) -> str:
    """The page as HTML, from the rows of `hpml.course.instructors.prove.prove`."""
    template = page_templates.environment("hpml.course.instructors").get_template(
        "wrong_page.html.j2"
    )
    return template.render(groups=list(_groups(rows)))


def _groups(rows: Iterable[Row]) -> Iterable[Group]:
    for exercise, of_exercise in groupby(rows, key=lambda row: row.exercise):
        parts = list(of_exercise)
        title = next((row.name for row in parts if row.part == "check"), exercise)
        wrong = tuple(row for row in parts if row.part == "wrong answer")
        if wrong:
            yield Group(exercise, title, wrong)
