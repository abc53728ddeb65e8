"""./hpml build and ./hpml course: make the exercises, prove them, and look at the lectures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import DONE, FAILED

if TYPE_CHECKING:
    from rich.console import Console

    from hpml.course.instructors.prove import Row

course_app = typer.Typer(add_completion=False, no_args_is_help=True)


@course_app.callback()
def course() -> None:
    """Prove the course's checks, begin a new exercise, and look at the lectures."""


def build(
    modules: Annotated[
        list[str] | None, typer.Argument(metavar="[MODULE]…", help="06, torch_distributed, …")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Make nothing; name what is not as it would be made.")
    ] = False,
    keep_outputs: Annotated[
        bool,
        typer.Option("--keep-outputs", help="Execute a notebook only if its code cells changed."),
    ] = False,
    cell_timeout: Annotated[float, typer.Option(min=1.0, help="Seconds one cell may take.")] = 1200,
) -> int:
    """Execute notebooks/ and solutions/ from their .py files, and make exercises/ of the latter.

    Exit code 1 when a cell fails, or when --check finds a file that is not what would be made.
    """
    from hpml.course import schedule
    from hpml.course.instructors import build as building

    course = schedule.load()
    chosen = course.select(modules or ())
    if check:
        found = building.check(course, chosen)
    else:
        found = building.build(
            course, chosen, keep_outputs=keep_outputs, timeout=cell_timeout, say=typer.echo
        )
    for finding in found:
        typer.echo(f"✗ {finding}")
    if not found:
        typer.echo("Everything is as it would be made." if check else "Everything is made.")
    return FAILED if found else DONE


@course_app.command("check")
def course_check(
    exercises: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]…", help="Exercises; default: all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Where a page of all wrong answers goes."),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Wrong answers alone: each must fail with the seeds 1 to N."
        ),
    ] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Answers judged at a time.")] = 2,
) -> int:
    """Prove each exercise: its stub fails, its solution passes, and each wrong answer is caught.

    With --page, also a page to read through: of each wrong answer what is wrong, and the claim,
    message, line and hint that its learner reads. Exit code 1 when a row is not good.
    """
    from rich.console import Console

    from hpml.checks import find, ids, judge
    from hpml.course import schedule
    from hpml.course.instructors import wrong_page
    from hpml.course.instructors.prove import PARTS, prove, record
    from hpml.files import atomic

    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)  # an error here comes before the minutes
    console = Console(highlight=False)
    rows = prove(
        schedule.load(),
        exercises or (),
        find=find,
        judge=judge,
        ids=ids(),
        workers=workers,
        on_row=(lambda row: None) if as_json or not console.is_terminal else _progress(console),
        brief=seeds > 0,
        parts=("wrong answer",) if seeds else PARTS,
        seeds=range(1, seeds + 1),
    )
    if page is not None:
        atomic.write_text(page, wrong_page.write(rows))
    if as_json:
        typer.echo(json.dumps(record(rows), indent=1))
    else:
        _print(console, rows)
    return DONE if all(row.good for row in rows) else FAILED


@course_app.command("new")
def course_new(
    module: Annotated[str, typer.Argument(metavar="MODULE", help="06, torch_distributed, …")],
    name: Annotated[str, typer.Argument(metavar="ID", help="lower_case_words, as find_it.")],
) -> None:
    """Write the skeleton of an exercise, or of a module if no module has this number.

    Of an exercise: its cells at the end of the module's solutions, its check, its test, a file for
    its wrong answers, and its line in course.toml; `course check` then names what is missing. Of a
    module: its two scripts, its folder, and its place in course.toml.
    """
    from hpml.course import schedule
    from hpml.course.instructors import new_exercise, new_module

    course = schedule.load()
    if module.isdecimal() and module.zfill(2) not in [each.id for each in course.modules]:
        made = new_module.create(course, module, name)
        last = course.modules[-1].id
        then = f"Its notebooks: ./hpml build {last} {module.zfill(2)} --keep-outputs"
    else:
        made = new_exercise.create(course, course.module(module), name)
        then = f"What is missing: ./hpml course check {name}"
    typer.echo("\n".join([*map(str, made), then]))


@course_app.command("core")
def course_core(
    modules: Annotated[
        list[str] | None, typer.Argument(metavar="[MODULE]…", help="06, torch_distributed, …")
    ] = None,
) -> int:
    """What the core of each module takes, in minutes, and whether that fits its slot.

    Reading the core sections and their code, running their cells, looking at figures, guessing,
    and the core exercises. Of a module that is named, its sections too. Exit code 1 where a core
    is too long.
    """
    from hpml.course import schedule
    from hpml.course.instructors import core_path

    course = schedule.load()
    paths = [core_path.of(course, module) for module in course.select(modules or ())]
    for path in paths if modules else ():
        typer.echo(core_path.of_sections(path) + "\n")
    typer.echo(core_path.as_table(paths))
    return DONE if all(path.fits for path in paths) else FAILED


@course_app.command("conclusions")
def course_conclusions(
    modules: Annotated[
        list[str] | None, typer.Argument(metavar="[MODULE]…", help="06, torch_distributed, …")
    ] = None,
) -> int:
    """What the committed lectures conclude from their measurements, and whether it held.

    Exit code 1 when a conclusion did not hold.
    """
    from hpml.course import schedule
    from hpml.course.instructors import conclusions

    course = schedule.load()
    held = True
    for module in course.select(modules or ()):
        found = conclusions.of(course, module)
        typer.echo(f"{module.id}  {module.title}: {len(found)} conclusions")
        section = None
        for each in found:
            if each.section != section:
                section = each.section
                typer.echo(f"    {section}" if each.core else f"    {section} (more)")
            typer.echo(f"      {'✓' if each.held else '✗'} cell {each.cell}: {each.text}")
            held = held and each.held
        typer.echo("")
    return DONE if held else FAILED


def _progress(console: "Console") -> "Callable[[Row], None]":
    status = console.status("")
    status.start()

    def show(row: "Row") -> None:
        status.update(f"{row.exercise}: {row.part} {row.name}")

    return show


def _print(console: "Console", rows: "list[Row]") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("", "exercise", "part", "name", "seen"):
        table.add_column(title)
    above = ""
    for row in rows:
        style = "" if row.good else "red"
        if row.exercise != above:
            table.add_section()
        shown = [row.exercise if row.exercise != above else "", row.part, row.name]
        above = row.exercise
        seen = row.shows if row.good else f"{row.reason}"
        table.add_row(
            Text("✓" if row.good else "✗", style or "green"),
            *(Text(text, style) for text in (*shown, seen)),
        )
    if not console.is_terminal:  # in a file or a log there is no window to fit into
        console.width = 160
    console.print(table)
    bad = sum(not row.good for row in rows)
    exercises = len({row.exercise for row in rows})
    seconds = sum(row.seconds for row in rows)
    console.print(
        f"\n{len(rows)} rows, exercises: {exercises}, {seconds:.0f} s of judging: "
        + ("all good" if not bad else f"{bad} not good")
    )
