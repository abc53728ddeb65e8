"""`./hpml bench attacks`, `grade` and `flips`: for instructors, and so not in a release."""

from typing import Annotated

import typer

from hpml.cli.bench_command import JSON, app, give
from hpml.errors import FAILED


@app.command("attacks")
def bench_attacks(
    json: JSON = None,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions at a time.")] = 2,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This attack only.")
    ] = None,
) -> None:
    """Hostile submissions among honest ones: points given, others harmed, honest marked down."""
    from hpml.bench.instructors.attacks import bench as measure

    table, good = measure(jobs, names=only or ())
    give(table, json)
    if not good:
        raise typer.Exit(FAILED)


@app.command("grade")
def bench_grade(
    json: JSON = None,
    people: Annotated[
        int | None, typer.Option(min=1, help="Full submissions; default: three for each core.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Grade this exercise of them only.")
    ] = None,
) -> None:
    """Submissions per minute, graded one at a time and two."""
    from hpml.bench.instructors.grade import bench as measure

    give(measure(people, only or ()), json)


@app.command("flips")
def bench_flips(
    exercises: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]…", help="Exercises; default: all with a budget."),
    ] = None,
    json: JSON = None,
    times: Annotated[int, typer.Option(min=1, help="Gradings of each.")] = 50,
    busy: Annotated[int, typer.Option(min=0, help="Processes that compute meanwhile.")] = 4,
) -> None:
    """Right answers graded again and again under load: how many verdicts are of failed?"""
    from hpml.bench.instructors.flips import bench as measure

    give(measure(exercises or (), times, busy), json)
