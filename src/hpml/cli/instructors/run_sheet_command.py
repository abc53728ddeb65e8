"""./hpml run-sheet: the day on paper, for the instructor."""

from pathlib import Path
from typing import Annotated

import typer


def run_sheet(
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="Where it goes.")] = Path(
        "build/run_sheet.html"
    ),
) -> None:
    """Write the instructor's run sheet: one page to print on A4.

    The clock of each module, its questions with their answers, what is often wrong in the core
    exercises and what to say, and what to prepare the day before.
    """
    from hpml.checks import find
    from hpml.course import schedule
    from hpml.course.instructors import run_sheet
    from hpml.files import atomic

    course = schedule.load()
    hints = {exercise.id: find(exercise.id).hints for exercise in course.core}
    text = run_sheet.write(course, hints)
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(out, text)
    typer.echo(f"{out}: to print on A4, or to save as PDF from a browser")
