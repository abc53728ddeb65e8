"""./hpml list, check, hint, answer, restore: the exercises, for those who prefer the terminal."""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import DONE, FAILED, NOT_GRADABLE, UserError

if TYPE_CHECKING:
    from hpml.answer import Answer
    from hpml.checks.verdict import Verdict

CODES = {"passed": DONE, "failed": FAILED, "not gradable": NOT_GRADABLE}

Named = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[ID|FILE]…",
        help="Exercises, whose answers are found in exercises/; or notebooks and .py scripts. "
        "None: what has changed since it was last judged.",
    ),
]


def list_() -> None:
    """Modules and their exercises, what they are worth, and which of them you have done.

    Core exercises fit the day; the others are more, for the evening.
    """
    from hpml.course import progress, schedule

    course, done = schedule.load(), progress.read()
    typer.echo(f"{course.title}\n")
    earned = 0
    for module in course.modules:
        typer.echo(f"{module.id}  {module.title} ({module.slot}, {module.minutes} min)")
        if module.exercises:
            typer.echo(f"    {module.exercise_notebook}")
        for exercise in module.exercises:
            entry = done.get(exercise.id)
            mark = "✓" if entry and entry["passed"] else "·" if entry and entry["points"] else " "
            points = min(entry["earned"], exercise.points) if entry else 0
            earned += points
            worth = f"{points:>3} of {exercise.points} points"
            core = ", core" if exercise.core else ""
            typer.echo(f"    {mark} {exercise.id:<24} {worth:<16} {exercise.minutes} min{core}")
        typer.echo("")
    typer.echo(f"{earned} of {course.points} points. ✓ is done, · was tried.")
    if where := progress.core_path(course):
        typer.echo(where)


def check(
    files: Named = None,
    exercise: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="This exercise only.")
    ] = None,
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Where each rank stood, if they did not return.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The inputs of an earlier verdict again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Verdicts as JSON.")] = False,
) -> int:
    """Check the answers to exercises (./hpml check ddp), or every answer in files: cells, or parts
    of a script, that begin with %%answer ID.

    Without either, every answer that has changed since it was last judged.

    An exercise's answer is in its notebook or in the script beside it, wherever you wrote it; where
    both have one, the file that was saved last counts. With --id, a script without an %%answer
    line is the answer as a whole. Exit code 0 when every answer passes, 1 when one does not, 3 when
    one could not be graded.
    """
    from hpml.checks.registry import module_of
    from hpml.course import progress, schedule

    if exercise is not None:
        module_of(exercise)
    if exercise is not None and not files:
        files, exercise = [Path(exercise)], None
    answers = find_answers(files, exercise) if files else _changed()
    for answer in answers:
        require_exercise(answer)
    if not (answers or as_json):
        typer.echo("No answer that is written has changed since it was last judged.")
        typer.echo(progress.core_path(schedule.load()))
        return DONE
    if (code := _hand_over(answers, as_json)) is not None:
        return code
    if as_json:
        from hpml.checks import judge

        verdicts = [judge(answer.exercise, answer.source, seed=seed) for answer in answers]
        for verdict, answer in zip(verdicts, answers, strict=True):
            progress.record(verdict, answer.source)
        records = [
            {**verdict.record(), "file": str(answer.file), "where": answer.where}
            for verdict, answer in zip(verdicts, answers, strict=True)
        ]
        typer.echo(json.dumps(records, indent=1))
        return max((CODES[verdict.status] for verdict in verdicts), default=DONE)
    return check_and_report(answers, stacks, seed)


def hint(
    exercise: Annotated[str, typer.Argument(metavar="ID", help="The exercise, as in ./hpml list.")],
) -> None:
    """A hint: first how to start, then, call by call, what helps with what failed last time, and
    how to go on, from a question to nearly the lines."""
    from hpml.course import hints

    typer.echo(hints.following(exercise, f"./hpml hint {exercise}"))


def answer(
    exercise: Annotated[str, typer.Argument(metavar="ID", help="The exercise, as in ./hpml list.")],
) -> None:
    """The course's own answer with its reasons, and what leads to it from yours: once yours has
    passed, or you have read the last hint."""
    from hpml.course import reference, schedule

    opened = reference.opened(schedule.load(), exercise, f"./hpml hint {exercise}")
    typer.echo(opened.as_text())


def restore(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="ID|FILE…", help="Exercises; or notebooks and scripts."),
    ],
) -> None:
    """Put a notebook or script back as it was handed out, or one exercise's stub into both of its
    files. Yours is kept beside it.

    ./hpml restore exercises/01_parallel_sgd.ipynb

    ./hpml restore ddp
    """
    from hpml.course import own_answers, schedule
    from hpml.course import restore as restoring
    from hpml.paths import CHECKOUT

    course = schedule.load()
    ids, paths = own_answers.split(course, files)
    for exercise in ids:
        typer.echo(restoring.stub_again(course, exercise))
    for path in paths:
        kept = restoring.restore(path, CHECKOUT)
        yours = f"; yours is {own_answers.as_typed(kept)}" if kept else ""
        typer.echo(f"{path} is as it was handed out{yours}")


def _changed() -> "tuple[Answer, ...]":
    """The answers in exercises/ that are written, and not as they were last judged."""
    from hpml.course import own_answers, progress, schedule

    judged = {exercise: entry["judged"] for exercise, entry in progress.read().items()}
    return tuple(
        answer
        for answer in own_answers.written(schedule.load())
        if judged.get(answer.exercise) != progress.fingerprint(answer.source)
    )


def find_answers(typed: Iterable[Path], exercise: str | None = None) -> "tuple[Answer, ...]":
    """The answers to what was typed: exercise ids, and files. With `exercise`, that one only."""
    from hpml.answer import read_all
    from hpml.course import own_answers, schedule

    course = schedule.load()
    ids, files = own_answers.split(course, typed)
    if ids and exercise is not None:
        raise UserError(f"{ids[0]} --id {exercise}: name the exercise once")
    found = tuple(own_answers.find(course, name) for name in ids)
    return (*found, *read_all(files, exercise)) if files else found


def _hand_over(answers: Iterable["Answer"], whatever: bool = False) -> int | None:
    """The exit code of this command, run by a server that is started now. None where this process
    runs it: it has nothing to judge (`whatever`: all is judged), or there can be no server."""
    from hpml.cli import hand_over

    answers = tuple(answers)
    stubs = {a for a in answers if len(answers) > 1 and a.is_stub}
    judged = [a for a in answers if whatever or not (a in stubs or a.syntax_error())]
    if not hand_over.may_start or not judged:
        return None
    names = ", ".join(dict.fromkeys(answer.exercise for answer in judged))
    typer.echo(f"{names}: the first check starts PyTorch, which takes some seconds", err=True)
    return hand_over.hand_over(sys.argv[1:], start=True)


def require_exercise(answer: "Answer") -> None:
    from hpml.checks.registry import module_of

    try:
        module_of(answer.exercise)
    except UserError as error:
        raise UserError(f"{answer.where}: {error}") from None


def check_and_report(
    answers: Iterable["Answer"],
    stacks: bool = False,
    seed: int | None = None,
    keep: "Callable[[Answer, Verdict], None]" = lambda answer, verdict: None,
) -> int:
    """Judge answers and print the verdicts. The stubs among several get one line each.

    `keep` is called with each verdict.
    """
    from hpml.checks.source_lines import pointed_at
    from hpml.course import progress, schedule

    answers, course, code = tuple(answers), schedule.load(), DONE
    for answer in answers:
        if len(answers) > 1 and answer.is_stub:
            typer.echo(f"· {answer.exercise}: not written yet ({answer.where})")
            code = max(code, FAILED)
            continue
        error = answer.syntax_error()
        if error:
            # A script's line is the error's, below; where the answer begins would be a second one.
            where = answer.where if answer.first_line is None else answer.file.name
            typer.echo(f"✗ {answer.exercise}: not valid Python ({where})")
            typer.echo("\n".join(pointed_at(error, answer.place)))
            code = max(code, FAILED)
            continue
        from hpml.checks import judge  # it imports torch

        verdict = judge(answer.exercise, answer.source, seed=seed)
        keep(answer, verdict)
        progress.record(verdict, answer.source)
        typer.echo(_format_verdict(answer, verdict, stacks))
        code = max(code, CODES[verdict.status])
        if verdict.passed:
            from hpml.checks.beside_library import beside_library

            for line in beside_library(answer.exercise, answer.source):
                typer.echo(line)
            for sentence in progress.after_a_pass(course, answer.exercise):
                typer.echo(sentence)
            typer.echo("")
    return code


def _format_verdict(answer: "Answer", verdict: "Verdict", stacks: bool) -> str:
    from hpml.checks.render import as_text

    lines = [as_text(verdict, stacks, answer.place)]
    if not verdict.passed:
        again = f"./hpml check {answer.file} --id {answer.exercise} --seed {verdict.seed}"
        lines.append(f"  The same inputs again: {again}")
        if verdict.stacks and not stacks:
            lines.append("  Where each rank stood: the same with --stacks")
    return "\n".join(lines) + "\n"
