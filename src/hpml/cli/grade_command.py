"""./hpml grade: judge what a class handed in, and write the marks."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import DONE, FAILED, NOT_GRADABLE, UserError

if TYPE_CHECKING:
    from hpml.grading.record import Record


def grade(
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
    seed: Annotated[
        int | None, typer.Option(min=0, help="That of a record: its verdicts again.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what is graded in DIR; do the rest.")
    ] = False,
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
    does not, 3 when one could not be graded.
    """
    from hpml.course import schedule
    from hpml.grading import batch, outputs

    if merge:
        found, waiting = batch.merge(out)
        code = _tell(found, schedule.load())
        if waiting:
            names = ", ".join(waiting[:5]) + (", …" if len(waiting) > 5 else "")
            typer.echo(f"Not graded yet: {len(waiting)} ({names})")
        outputs.write_all(found, schedule.load(), out)
        typer.echo(f"Written: {out}")
        return max(code, NOT_GRADABLE) if waiting else code
    if not paths:
        raise UserError("no PATH: name a notebook, a folder or a zip of submissions")
    _refuse_unless_safe(unsafe)
    numbers = _part(part)
    with tempfile.TemporaryDirectory(prefix="hpml-grade-") as scratch:
        if as_json is not None:
            return _one(paths, Path(scratch), as_json, only or (), seed, unsafe)
        return _many(
            paths,
            Path(scratch),
            out,
            jobs or os.cpu_count() or 1,
            only or (),
            seed,
            resume,
            numbers,
            unsafe,
        )


def _many(
    paths: Sequence[Path],
    scratch: Path,
    out: Path,
    jobs: int,
    only: Sequence[str],
    seed: int | None,
    resume: bool,
    part: tuple[int, int],
    unsafe: bool,
) -> int:
    from hpml.course import schedule
    from hpml.grading import batch, intake, outputs, sandbox
    from hpml.grading.judging import Judge

    course = schedule.load()
    submissions = intake.collect(paths, scratch)
    exercises, submitting = batch.exercises_of(submissions, course, only)
    if submitting and unsafe:
        exercises += submitting
    elif submitting:
        typer.echo(f"Left out: {', '.join(submitting)}: it runs on your SLURM what is handed in.")
    judge = Judge(course, exercises, limits=sandbox.shared_by(jobs), unsafe=unsafe)
    with _Progress() as progress:
        found = batch.grade(
            submissions, judge, out, progress, seed=seed, jobs=jobs, resume=resume, part=part
        )
    if part[1] > 1:
        typer.echo(f"Part {part[0]} of {part[1]}: {len(found)} graded. Then: ./hpml grade --merge")
        return DONE
    code = _tell(found, course)
    outputs.write_all(found, course, out)
    typer.echo(f"Written: {out} (marks.csv, index.html, feedback/, records/, …)")
    return code


def _one(
    paths: Sequence[Path],
    scratch: Path,
    to: Path,
    only: Sequence[str],
    seed: int | None,
    unsafe: bool,
) -> int:
    import json
    import secrets

    from hpml.course import schedule
    from hpml.grading import batch, intake
    from hpml.grading.judging import Judge
    from hpml.grading.record import write_whole
    from hpml.grading.workers import WorkerDied, judged

    course = schedule.load()
    submissions = intake.collect(paths, scratch)
    if len(submissions) != 1:
        raise UserError(f"--json: {len(submissions)} submissions there: give one")
    exercises, submitting = batch.exercises_of(submissions, course, only)
    drawn = secrets.randbelow(2**31) if seed is None else seed
    judge = Judge(course, exercises + (submitting if unsafe else ()), drawn, unsafe=unsafe)
    ((_, record),) = judged(submissions, judge, jobs=1)
    if isinstance(record, WorkerDied):
        raise UserError(f"could not be graded: {record}")
    text = json.dumps(record.as_json(), indent=1)
    if str(to) == "-":
        print(text)
    else:
        write_whole(to, text.encode())
    return _code([record])


def _refuse_unless_safe(unsafe: bool) -> None:
    from hpml.grading import sandbox

    why = sandbox.missing()
    if why and not unsafe:
        raise UserError(f"grading needs a sandbox: {why} (--unsafe grades without, and says so)")
    if unsafe:
        typer.echo(
            "UNSAFE: answers run without a sandbox, with your rights. Every mark says so.", err=True
        )


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
        return int(number), int(of)
    raise UserError(f"--part {text}: give K/N, for example 2/8, with K from 1 to N")


def _tell(records: "Sequence[Record]", course) -> int:
    from rich.console import Console

    from hpml.grading import marks

    console = Console(highlight=False)
    for table in marks.tables(records, course):
        console.print(table)
        console.print()
    console.print(marks.summary(records), markup=False)
    return _code(records)


def _code(records: "Sequence[Record]") -> int:
    statuses = {result.status for record in records for result in record.results}
    if "not gradable" in statuses:
        return NOT_GRADABLE
    return FAILED if statuses - {"passed"} or any(r.refused for r in records) else DONE


class _Progress:
    """A line per run that says how many are done, how fast, and how long the rest takes."""

    def __enter__(self) -> "_Progress":
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("graded"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[last]}"),
        )
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def started(self, total: int, kept: int) -> None:
        if kept:
            self._bar.console.print(f"{kept} of {total} were graded before and are kept.")
        self._task = self._bar.add_task("", total=total - kept, rate="", last="")

    def graded(self, record: "Record", done: int, total: int, elapsed: float) -> None:
        left = elapsed / done * (total - done)
        self._bar.update(
            self._task,
            completed=done,
            rate=f"{60 * done / elapsed:.1f} per minute, {_minutes(left)} left",
            last=f"{record.person}: {record.earned} of {record.points}"[:40],
        )


def _minutes(seconds: float) -> str:
    return time.strftime("%-H:%M:%S" if seconds >= 3600 else "%-M:%S", time.gmtime(seconds))
