"""The part of README.md that is generated from course.toml: the day's schedule."""

from pathlib import Path

from hpml.course.schedule import Course
from hpml.errors import UserError

BEGIN, END = "<!-- the day, from course.toml -->", "<!-- end of the day -->"


def schedule(course: Course) -> str:
    """The day as a Markdown table: time, minutes, module, what it asks, exercises, points.

    Exercises of the core path are in bold.
    """
    lines = [
        "| when | minutes | module | it asks | exercises | points |",
        "|---|---|---|---|---|---|",
    ]
    for module in course.modules:
        exercises = ", ".join(
            f"**`{exercise.id}`**" if exercise.core else f"`{exercise.id}`"
            for exercise in module.exercises
        )
        title = f"[{module.id} {module.title}]({module.notebook.as_posix()})"
        cells = (module.slot, module.minutes, title, module.asks, exercises, module.points)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def with_schedule(text: str, course: Course) -> str:
    """A README's text with the table generated from course.toml.

    Raises UserError if the marks around the table are missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"README.md: the marks {BEGIN} and {END} are missing: restore them")
    return f"{before}{BEGIN}\n{schedule(course)}\n{END}{after}"


def path(course: Course) -> Path:
    """The path of the README."""
    return course.root / "README.md"
