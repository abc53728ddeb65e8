"""./hpml run-sheet: the day on paper, for the instructor."""

from pathlib import Path
from typing import Annotated

import typer


def run_sheet(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Where it goes; by default build/run_sheet.html, or run_sheet_brief.html there.",
        ),
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="A page a module, no more.")] = False,
    learners: Annotated[
        int, typer.Option(min=1, help="For how many a cluster's nodes are counted.")
    ] = 30,
) -> None:
    """Write the instructor's run sheet: one page to print on A4.

    The clock of each module, its questions with their answers, what is often wrong in the core
    exercises and what to say, the steps on a cluster; what to prepare the day before, and what to
    reserve.
    """
    from hpml.checks import find
    from hpml.course import schedule
    from hpml.course.instructors import run_sheet
    from hpml.files import atomic

    course = schedule.load()
    out = out or Path("build", f"run_sheet{'_brief' * brief}.html")
    hints = {exercise.id: find(exercise.id).hints for exercise in course.core}
    text = run_sheet.write(course, hints, learners, brief)
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(out, text)
    typer.echo(f"{out}: to print on A4, or to save as PDF from a browser")
