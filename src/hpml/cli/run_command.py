"""./hpml run: the day on this machine. ./hpml lab: the course in JupyterLab."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpml.errors import DONE, FAILED

if TYPE_CHECKING:
    from rich.progress import Progress

    from hpml.course.execute import CellRun, NotebookRun
    from hpml.course.run import CourseRun

INTERRUPTED = 130
_DATA_HELP = "Folder with CIFAR-10 (binary or python layout)."


def run(
    modules: Annotated[
        list[str] | None, typer.Argument(metavar="[MODULE]…", help="06, torch_distributed, …")
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="DIR", help=_DATA_HELP)] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the report goes: build/report.")
    ] = None,
    cell_timeout: Annotated[float, typer.Option(min=1.0, help="Seconds one cell may take.")] = 1200,
) -> int:
    """Execute the lecture and the solution notebook of each module, and write a report.

    Where there are no solutions, as in a release for learners, it is the lectures alone.
    Exit code 0 when every cell ran and no exercise failed, 1 when one did, 2 when it could not
    begin. A claim that cannot be judged here, as one on SLURM, is named and does not fail. Ctrl-C
    ends it with a report of what was done.
    """
    from rich.console import Console

    from hpml import data as images
    from hpml import doctor
    from hpml.course import report, schedule
    from hpml.course.run import DataUsed, plan, prepare, run_course
    from hpml.paths import CHECKOUT

    console = Console(highlight=False, soft_wrap=True)
    folder = Path(out).expanduser() if out else CHECKOUT / "build" / "report"
    course = schedule.load()
    course.select(modules or ())  # refuse a wrong name before the data is checked
    used = images.load(data)
    planned = plan(course, modules or (), DataUsed(used.folder, used.describe(), used.synthetic))
    prepare(folder)
    console.print(f"Data: {used.describe()}", markup=False)
    if not any("solution" in module.notebooks for module in planned.modules):
        console.print("There are no solutions here: only the lectures are executed.")
    os.environ["HPML_DATA"] = str(used.folder)  # the facts below are of this data
    facts = doctor.facts()
    run_course(planned, folder, _Progress(console, planned), cell_timeout=cell_timeout)
    front = report.write(planned, facts, folder)
    found = report.collect(planned)
    for failure in found.failures:
        title = f", {failure.cell.title!r}" if failure.cell else ""
        console.print(f"failed: {failure.place.words}{title}: {failure.error}", markup=False)
    console.print(report.summary(planned, found), markup=False)
    console.print(f"Report: {front}", markup=False)
    if planned.interrupted:
        return INTERRUPTED
    return DONE if report.all_well(planned, found) else FAILED


def lab(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENT]…", help="Handed on to JupyterLab."),
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="DIR", help=_DATA_HELP)] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address, for a browser elsewhere.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=65535, help="Its port; default: 8888.")
    ] = None,
) -> int:
    """Open the course in JupyterLab, at its first notebook. Ctrl-C ends it.

    What comes after -- is handed on to it: ./hpml lab --no-browser -- --ServerApp.ip=0.0.0.0
    """
    from hpml.course import lab as jupyter
    from hpml.course import progress, schedule
    from hpml.data import find
    from hpml.paths import CHECKOUT, home

    course = schedule.load()
    given = ["--no-browser"] if no_browser else []
    given += [f"--port={port}"] if port is not None else []
    command = jupyter.command(course.modules[0].notebook, [*given, *(arguments or ())])
    environment = jupyter.environment(os.environ, home(), find(data) if data else None)
    if where := progress.core_path(course):
        typer.echo(where, err=True)  # where JupyterLab writes, too
    os.chdir(CHECKOUT)
    sys.stdout.flush()
    os.execve(command[0], command, environment)  # signals reach JupyterLab itself


class _Progress:
    """One line per cell; on a terminal, also the running cell with its seconds."""

    def __init__(self, console: Any, run: "CourseRun") -> None:
        self.console = console
        self.live: Progress | None = None
        self.names = {
            id(notebook): f"{module.module.id} {kind}"
            for module in run.modules
            for kind, notebook in module.notebooks.items()
        }

    def started(self, run: "NotebookRun", cell: "CellRun", number: int) -> None:
        if self.console.is_terminal:
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
            )
            self.live = Progress(*columns, console=self.console, transient=True)
            self.live.add_task(self._line(run, cell, number))
            self.live.start()

    def ended(self, run: "NotebookRun", cell: "CellRun", number: int) -> None:
        if self.live:
            self.live.stop()
            self.live = None
        marks = {"ran": "", "failed": "  FAILED", "not run": "  interrupted"}
        line = f"{self._line(run, cell, number)} {cell.seconds:7.1f} s{marks[cell.status]}"
        self.console.print(line, markup=False, style="red" if cell.status == "failed" else None)

    def _line(self, run: "NotebookRun", cell: "CellRun", number: int) -> str:
        total = str(len(run.cells))
        return f"{self.names[id(run)]:<11} {number:>{len(total)}} of {total}  {cell.title:<44}"
