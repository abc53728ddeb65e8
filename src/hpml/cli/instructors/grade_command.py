"""./hpml grade: judge what a class handed in, and write the marks."""

import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.cli.instructors.broken_pipe import survive_broken_pipe
from hpml.errors import DONE, FAILED, NOT_GRADABLE, UserError

if TYPE_CHECKING:
    from hpml.course.schedule import Course
    from hpml.grading.grade import Options
    from hpml.grading.record import Record

# What else may be given with an option that asks for something other than to grade a class
GOES_WITH = {
    "again": {"out", "only", "unsafe"},
    "merge": {"out"},
    "as_json": {"paths", "only", "core", "jobs", "unsafe"},
}
UNSAFE = "UNSAFE: answers run without a sandbox, with your rights. Every mark says so."


def grade(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH…", help="Notebooks, folders of them, or zips of platforms."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where marks and feedback go.")] = Path(
        "build/grades"
    ),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Submissions at a time; default: one per core.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="This exercise or module only.")
    ] = None,
    core: Annotated[
        bool, typer.Option("--core", help="The exercises of the core path alone count.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what is graded in DIR; do the rest.")
    ] = False,
    again: Annotated[
        str | None,
        typer.Option(metavar="PERSON", help="The verdicts of a record in DIR again, in full."),
    ] = None,
    part: Annotated[
        str, typer.Option(metavar="K/N", help="Every N-th submission from the K-th: in an array.")
    ] = "1/1",
    merge: Annotated[
        bool, typer.Option("--merge", help="Write the tables from what all parts left in DIR.")
    ] = False,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="One record there; - is stdout.")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Without a sandbox: answers run with your rights.")
    ] = False,
) -> int:
    """Grade submissions, each in a sandbox of its own, and write marks and feedback to DIR.

    marks.csv, index.html and feedback/ for people, records/*.json for programs, gradescope/,
    junit.xml and gradebook.db for other systems. Exit code 0 when every answer passes, 1 when one
    does not, 3 when one could not be graded. With --part: 0 when the part is graded, whatever the
    marks are. With --again: 1 when a verdict is another one now.
    """
    from hpml.course import schedule
    from hpml.grading import batch
    from hpml.grading.grade import Options

    _refuse_conflicts(context)
    course = schedule.load()
    if again is not None:
        return _again(out, again, only or (), course, unsafe)
    if merge:
        with survive_broken_pipe():
            return _write(*batch.merge(out), course, out)
    if not paths:
        raise UserError("no PATH: name a notebook, a folder or a zip of submissions")
    jobs = jobs or os.cpu_count() or 1
    options = Options(paths, only or (), jobs, resume, _part(part), unsafe, core)
    if unsafe:
        typer.echo(UNSAFE, err=True)
    if as_json is not None:
        return _one(options, course, as_json)
    with survive_broken_pipe():
        return _class(options, course, out)


def _refuse_conflicts(context: typer.Context) -> None:
    """Raises UserError where an argument was given that another one would make void."""
    names = {each.name: max(each.opts, key=len) for each in context.command.params}
    names["paths"] = "PATH"
    given = [
        name
        for name in names
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    for mode in (name for name in GOES_WITH if name in given):
        void = [names[name] for name in given if name not in {mode, *GOES_WITH[mode]}]
        if void:
            raise UserError(f"{names[mode]} cannot go with {' and '.join(void)}: leave one out")


def _class(options: "Options", course: "Course", out: Path) -> int:
    """Grade a class, or a part of it, which leaves the tables to --merge.

    The tables are of everybody with a record in `out`: late work may be graded alone.
    """
    from hpml.grading import batch
    from hpml.grading.grade import grade as grade_all

    with _Progress() as progress:
        records = grade_all(options, course, out, progress)
    if options.part != (1, 1):
        number, parts = options.part
        then = shlex.join(["./hpml", "grade", "--merge", "--out", str(out)])
        typer.echo(f"Part {number}/{parts}: {len(records)} graded. Then: {then}")
        return DONE
    return _write(*batch.merge(out), course, out)


def _write(
    records: "Sequence[Record]", waiting: "Sequence[str]", course: "Course", out: Path
) -> int:
    """Print the tables, and write all files."""
    from hpml.grading import outputs, overrides

    records = overrides.applied(records, out)
    _show(records, course, waiting)
    outputs.write_all(records, course, out)
    typer.echo(f"Written: {out} (marks.csv, index.html, feedback/, records/, …)")
    if without := [record.person for record in records if not record.has_total]:
        typer.echo(
            f"{_some(without)} without a total: nbgrader alone counts what has no mark as 0, until "
            "somebody grades it in formgrader"
        )
    return max(_code(records), NOT_GRADABLE if waiting else DONE)


def _again(out: Path, person: str, only: "Sequence[str]", course: "Course", unsafe: bool) -> int:
    from hpml.checks.render import as_text
    from hpml.grading.again import again

    code = DONE
    for each in again(out, person, only, course, unsafe=unsafe):
        if each.verdict is None:
            typer.echo(f"{each.recorded.exercise}: {each.recorded.headline}")
            typer.echo(f"  In the record: {each.recorded.status}. There is no answer to judge.\n")
            continue
        typer.echo(as_text(each.verdict, stacks=True))
        recorded, now = (
            f"{result.status}, {result.earned} of {result.points} points"
            if result.has_mark
            else result.status
            for result in (each.recorded, each.now)
        )
        typer.echo(f"  In the record: {recorded}. Now: {now}.\n")
        code = max(code, DONE if each.same else FAILED)
        if each.now.status == "not gradable":
            code = NOT_GRADABLE
    return code


def _one(options: "Options", course: "Course", to: Path) -> int:
    import json

    from hpml.grading.grade import grade_one
    from hpml.grading.record import write_whole

    record = grade_one(options, course)
    text = json.dumps(record.as_json(), indent=1)
    if str(to) == "-":
        print(text)
    else:
        write_whole(to, text.encode())
    return _code([record])


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
        return int(number), int(of)
    raise UserError(f"--part {text}: give K/N, for example 2/8, with K from 1 to N")


def _show(records: "Sequence[Record]", course: "Course", waiting: "Sequence[str]") -> None:
    """Print the tables, and who is `waiting` to be graded."""
    from rich.console import Console

    from hpml.grading import marks

    console = Console(highlight=False)
    for table in marks.tables(records, course):
        console.print(table)
        console.print()
    console.print(marks.summary(records), markup=False)
    if waiting:
        typer.echo(f"Not graded yet: {len(waiting)} ({_some(waiting)})")


def _some(people: "Sequence[str]") -> str:
    return ", ".join(people[:5]) + (", …" if len(people) > 5 else "")


def _code(records: "Sequence[Record]") -> int:
    statuses = {result.status for record in records for result in record.results}
    if "not gradable" in statuses:
        return NOT_GRADABLE
    return FAILED if statuses - {"passed"} or any(r.refused for r in records) else DONE


class _Progress:
    """How many are done, how fast, and how long the rest takes: a bar, in a log a line a minute."""

    EVERY = 60.0  # seconds

    def __init__(self) -> None:
        self._said = 0.0  # seconds since the beginning

    def __enter__(self) -> "_Progress":
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("graded"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[last]}"),
        )
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar.live.is_started:  # to stop it prints a line
            self._bar.stop()

    def left_out(self, exercises: "Sequence[str]") -> None:
        typer.echo(f"Left out: {', '.join(exercises)}: it runs on your SLURM what is handed in.")

    def started(self, total: int, kept: int) -> None:
        self._bar.start()
        if kept:
            self._bar.console.print(f"{kept} of {total} were graded before and are kept.")
        self._task = self._bar.add_task("", total=total - kept, rate="", last="")

    def graded(self, record: "Record", done: int, total: int, elapsed: float) -> None:
        from hpml.grading import marks

        mark = f"{record.earned} of {record.points}" if record.has_total else marks.total(record)
        left = elapsed / done * (total - done)
        rate = f"{60 * done / elapsed:.1f} per minute, {_minutes(left)} left"
        if (
            not self._bar.console.is_terminal
            and elapsed >= self._said + self.EVERY
            and done < total
        ):
            self._said = elapsed
            self._bar.console.print(f"graded {done}/{total} {rate}")
        self._bar.update(
            self._task,
            completed=done,
            rate=rate,
            last=f"{record.person}: {mark}"[:40],
        )


def _minutes(seconds: float) -> str:
    return time.strftime("%-H:%M:%S" if seconds >= 3600 else "%-M:%S", time.gmtime(seconds))
