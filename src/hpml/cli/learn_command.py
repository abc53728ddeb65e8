"""./hpml list, check, hint, watch: the exercises, for a learner who prefers the terminal."""

import json
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import DONE, FAILED, NOT_GRADABLE, UserError

if TYPE_CHECKING:
    from hpml.answer import Answer
    from hpml.checks.verdict import Verdict

MANY = 4  # files, which one line need not name
WIDTH = 96  # of a verdict, see hpml.checks.render
CODES = {"passed": DONE, "failed": FAILED, "not gradable": NOT_GRADABLE}

Named = Annotated[
    list[Path],
    typer.Argument(
        metavar="ID|FILE…",
        help="Exercises, whose answers are found in exercises/; or notebooks and .py scripts.",
    ),
]
Watched = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[ID|FILE]…",
        help="Exercises, or notebooks and .py scripts. None: every file in exercises/.",
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
    files: Named,
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

    An exercise's answer is in its notebook or in the script beside it, wherever you wrote it; where
    both have one, the file that was saved last counts. With --id, a script without an %%answer
    line is the answer as a whole. Exit code 0 when every answer passes, 1 when one does not, 3 when
    one could not be graded.
    """
    from hpml.checks.registry import module_of
    from hpml.course import progress

    if exercise is not None:
        module_of(exercise)
    answers = _answers(files, exercise)
    for answer in answers:
        _require_exercise(answer)
    if (code := _hand_over(answers, as_json)) is not None:
        return code
    if as_json:
        from hpml.checks import judge

        verdicts = [judge(answer.exercise, answer.source, seed=seed) for answer in answers]
        for verdict in verdicts:
            progress.record(verdict)
        records = [
            {**verdict.record(), "file": str(answer.file), "where": answer.where}
            for verdict, answer in zip(verdicts, answers, strict=True)
        ]
        typer.echo(json.dumps(records, indent=1))
        return max(CODES[verdict.status] for verdict in verdicts)
    return _check_and_report(answers, stacks, seed)


def hint(
    exercise: Annotated[str, typer.Argument(metavar="ID", help="The exercise, as in ./hpml list.")],
) -> None:
    """A hint: first how to start, then, call by call, what helps with what failed last time, and
    how to go on, from a question to nearly the lines."""
    from hpml.checks import hint_texts
    from hpml.course import progress

    known = {
        **hint_texts.general(),
        **hint_texts.of(exercise),
        **hint_texts.steps(exercise),
    }
    following = progress.next_hint(exercise, known)
    again = f"./hpml hint {exercise}"
    if following is None:
        typer.echo(
            "That was the last one. Check your answer again: what then fails has its own hints.\n"
            f"From the first hint on: {again}"
        )
        return
    key, left = following
    typer.echo(_wrap(known[key]))
    if left:
        typer.echo(f"\n{left} more: {again}")


def watch(files: Watched = None) -> int:
    """Check answers now, and whenever you save their file. Ctrl-C ends it.

    ./hpml watch ddp watches both files that its answer may be in; ./hpml watch every exercise of
    the day: it begins with what you save.
    """
    import watchfiles

    from hpml.answer import read, read_all

    only, paths = _watched(files or ())
    answers = _of_interest(only, (answer for path in paths for answer in read(path)))
    first = _answers(files) if files else ()
    for answer in first:
        _require_exercise(answer)
    if (code := _hand_over_watch()) is not None:
        return code
    # By file: an exercise may be answered in its notebook and in its script
    last = {(answer.file, answer.exercise): answer.source for answer in answers}
    try:
        if first:
            _check_and_report(first)
        _report_waiting(paths)
        # Watch folders, because many editors save by replacing the file.
        by_place = {path.resolve(): path for path in paths}
        changes = watchfiles.watch(
            *{path.parent for path in by_place},
            watch_filter=lambda change, name: Path(name).resolve() in by_place,
            recursive=False,
            debounce=200,
        )
        for saved in changes:
            changed: list[Answer] = []
            for place in sorted({Path(name).resolve() for _, name in saved}):
                try:
                    answers = _of_interest(only, read_all([by_place[place]]))
                    new = [a for a in answers if last.get((a.file, a.exercise)) != a.source]
                    for answer in new:
                        _require_exercise(answer)
                except UserError as error:  # perhaps half saved: wait for the next save
                    typer.echo(f"✗ {error}")
                    continue
                last |= {(answer.file, answer.exercise): answer.source for answer in answers}
                # JupyterLab saves a notebook's script too: the same answer is judged once
                seen = {(answer.exercise, answer.source) for answer in changed}
                changed += [a for a in new if (a.exercise, a.source) not in seen]
            if changed:
                _check_and_report(changed)
                _report_waiting(paths)
    except KeyboardInterrupt:
        typer.echo("\nNo longer watching.")
    return DONE


def restore(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Notebooks or scripts.")],
) -> None:
    """Put a notebook or script back as it was handed out. Yours is kept beside it.

    ./hpml restore exercises/01_parallel_sgd.ipynb
    """
    from hpml.course import own_answers
    from hpml.course import restore as restoring
    from hpml.paths import CHECKOUT

    for path in files:
        kept = restoring.restore(path, CHECKOUT)
        yours = f"; yours is {own_answers.as_typed(kept)}" if kept else ""
        typer.echo(f"{path} is as it was handed out{yours}")


def _answers(typed: Iterable[Path], exercise: str | None = None) -> "tuple[Answer, ...]":
    """The answers to what was typed: exercise ids, and files. With `exercise`, that one only."""
    from hpml.answer import read_all
    from hpml.course import own_answers, schedule

    course = schedule.load()
    ids, files = own_answers.split(course, typed)
    if ids and exercise is not None:
        raise UserError(f"{ids[0]} --id {exercise}: name the exercise once")
    found = tuple(own_answers.find(course, name) for name in ids)
    return (*found, *read_all(files, exercise)) if files else found


def _watched(typed: Iterable[Path]) -> tuple[frozenset[str], tuple[Path, ...]]:
    """The exercises to judge, where they were named (none: all), and the files to watch."""
    from hpml.course import own_answers, schedule

    course = schedule.load()
    ids, files = own_answers.split(course, typed)
    if not ids and not files:
        return frozenset(), own_answers.files(course)
    if ids and files:
        raise UserError(f"{ids[0]} and {files[0]}: name exercises, or files")
    paths = (*files, *(path for name in ids for path in own_answers.files(course, name)))
    return frozenset(ids), tuple(dict.fromkeys(paths))


def _of_interest(only: frozenset[str], answers: "Iterable[Answer]") -> "tuple[Answer, ...]":
    return tuple(answer for answer in answers if not only or answer.exercise in only)


def _hand_over_watch() -> int | None:
    """As `_hand_over`: a watch may begin with nothing to judge, and will soon have something."""
    from hpml.cli import hand_over

    if not hand_over.may_start:
        return None
    typer.echo("PyTorch starts, which takes some seconds", err=True)
    return hand_over.hand_over(sys.argv[1:], start=True)


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


def _report_waiting(paths: Collection[Path]) -> None:
    names = ", ".join(sorted(path.name for path in paths))
    if len(paths) > MANY:
        names = f"a file in {next(iter(paths)).parent}"
    typer.echo(f"Waiting for {names} to be saved; Ctrl-C ends it.\n")


def _require_exercise(answer: "Answer") -> None:
    from hpml.checks.registry import module_of

    try:
        module_of(answer.exercise)
    except UserError as error:
        raise UserError(f"{answer.where}: {error}") from None


def _check_and_report(
    answers: Iterable["Answer"], stacks: bool = False, seed: int | None = None
) -> int:
    """Judge answers and print the verdicts. The stubs among several get one line each."""
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
        progress.record(verdict)
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


def _wrap(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, WIDTH))
