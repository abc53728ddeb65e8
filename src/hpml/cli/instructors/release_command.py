"""./hpml release: the course as a learner gets it."""

from typing import Annotated

import typer


def release(
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where it goes: build/release.")
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="With the solutions, for learners on their own.")
    ] = False,
) -> None:
    """Make what a learner gets, as a folder and as a zip archive to hand out.

    Notebooks, exercises, job scripts, the library, and what sets them up. Without solutions, wrong
    answers, tests, and the commands that make and grade the course.
    """
    from pathlib import Path

    from hpml.course import schedule
    from hpml.course.instructors.release import files, write
    from hpml.paths import CHECKOUT

    target = Path(out).expanduser() if out else CHECKOUT / "build" / "release"
    made = files(schedule.load(), answers)
    folder, archive = write(made, target)
    size = archive.stat().st_size / 1e6
    typer.echo(f"{folder}: {len(made)} files")
    typer.echo(f"{archive}: the same in {size:.1f} MB, to hand out")
    if answers:
        typer.echo("./hpml answer shows a solution after a pass: hand this to no class with marks")
