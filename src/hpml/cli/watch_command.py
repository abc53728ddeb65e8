"""./hpml watch: a verdict whenever an exercise is saved, and keys for what comes after it."""

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.cli import keys
from hpml.cli.exercise_commands import check_and_report, find_answers, require_exercise
from hpml.errors import DONE, UserError

if TYPE_CHECKING:
    from hpml.answer import Answer
    from hpml.checks.verdict import Verdict
    from hpml.course.schedule import Course

MANY = 4  # files, which one line need not name
LOOK = 100  # milliseconds between two looks for keys
STDIN = 0
KEYS = "keys: 1-9 that claim in full, h hint, n next of this module, r this stub again, q quit"

Watched = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[ID|FILE]…",
        help="Exercises, or notebooks and .py scripts. None: every file in exercises/.",
    ),
]


def watch(files: Watched = None) -> int:
    """Check answers now, and whenever you save their file. Ctrl-C ends it.

    ./hpml watch ddp watches both files that its answer may be in; ./hpml watch every exercise of
    the day: it begins with what you save. In a terminal there are keys: 1 to 9 for that claim of
    the last verdict with its message and its hint, h for a hint, n for the next exercise of this
    module, r to have this one's stub again, q to end.
    """
    import watchfiles

    from hpml.course import schedule

    course = schedule.load()
    only, paths = _watched(course, files or ())
    watching = _Watch(course, only, paths)
    first = find_answers(files) if files else ()
    for answer in first:
        require_exercise(answer)
    if (code := _hand_over()) is not None:
        return code
    try:
        with keys.single(STDIN) as has_keys:
            watching.end = KEYS if has_keys else "Ctrl-C ends it"
            if first:
                watching.judge(first)
            else:
                watching.report_waiting()
            # Watch folders, because many editors save by replacing the file.
            changes = watchfiles.watch(
                *{path.parent for path in watching.by_place},
                watch_filter=lambda change, name: Path(name).resolve() in watching.by_place,
                recursive=False,
                debounce=200,
                yield_on_timeout=has_keys,
                rust_timeout=LOOK if has_keys else 5000,
            )
            for saved in changes:
                if saved:
                    watching.look_at({Path(name).resolve() for _, name in saved})
                for key in keys.pressed(STDIN) if has_keys else "":
                    if key == "q":
                        raise KeyboardInterrupt
                    watching.press(key)
    except KeyboardInterrupt:
        typer.echo("\nNo longer watching.")
    return DONE


class _Watch:
    """The files that are watched, and the exercise that keys are about."""

    def __init__(self, course: "Course", only: frozenset[str], paths: tuple[Path, ...]) -> None:
        self._course, self._only, self._paths = course, only, paths
        self.by_place = {path.resolve(): path for path in paths}
        self.end = ""  # of the line that says what is waited for
        # By file: an exercise may be answered in its notebook and in its script
        self._last: dict[tuple[Path, str], str] = {}
        self._verdicts: dict[str, tuple[Answer, Verdict]] = {}  # by exercise
        self._remember_all()
        self._exercise = next(iter(only)) if len(only) == 1 else ""

    def look_at(self, places: Iterable[Path]) -> None:
        """Judge what is new in files that were saved."""
        from hpml.answer import read_all

        changed: list[Answer] = []
        for place in sorted(places):
            try:
                answers = self._of_interest(read_all([self.by_place[place]]))
                new = [a for a in answers if self._last.get((a.file, a.exercise)) != a.source]
                for answer in new:
                    require_exercise(answer)
            except UserError as error:  # perhaps half saved: wait for the next save
                typer.echo(f"✗ {error}")
                continue
            self._remember(answers)
            # JupyterLab saves a notebook's script too: the same answer is judged once
            seen = {(answer.exercise, answer.source) for answer in changed}
            changed += [a for a in new if (a.exercise, a.source) not in seen]
        if changed:
            self.judge(changed)

    def judge(self, answers: Iterable["Answer"]) -> None:
        answers = tuple(answers)
        for answer in answers:  # one that is not valid Python now has none
            self._verdicts.pop(answer.exercise, None)
        check_and_report(answers, keep=self._keep)
        written = [answer for answer in answers if not answer.is_stub]
        self._exercise = (written or answers)[-1].exercise
        self.report_waiting()

    def press(self, key: str) -> None:
        """Do what a key stands for; others do nothing."""
        act = {"h": self._hint, "n": self._next, "r": self._restore}.get(key)
        if key in set("123456789"):
            act = partial(self._claim, int(key))
        if act is None:
            return
        if self._exercise:
            try:
                typer.echo(act())
            except UserError as error:
                typer.echo(f"✗ {error}")
        else:
            typer.echo("Keys are about the exercise that was judged last: save one first.")
        self.report_waiting()

    def report_waiting(self) -> None:
        names = ", ".join(sorted(path.name for path in self._paths))
        if len(self._paths) > MANY:
            names = f"a file in {self._paths[0].parent}"
        typer.echo(f"Waiting for {names} to be saved; {self.end}.\n")

    def _keep(self, answer: "Answer", verdict: "Verdict") -> None:
        self._verdicts[answer.exercise] = answer, verdict

    def _claim(self, number: int) -> str:
        from hpml.cli.claim_in_full import claim_in_full

        if self._exercise not in self._verdicts:
            raise UserError(f"{self._exercise} has no verdict here yet: save your answer")
        answer, verdict = self._verdicts[self._exercise]
        return claim_in_full(verdict, number, answer.place)

    def _hint(self) -> str:
        from hpml.course import hints

        return hints.following(self._exercise, "h")

    def _next(self) -> str:
        from hpml.course import own_answers, progress

        following = progress.next_in_module(self._course, self._exercise)
        if following is None:
            return progress.standing(self._course, self._exercise)
        answer = own_answers.find(self._course, following.id)
        self._exercise = following.id
        self._only |= {following.id} if self._only else frozenset()
        self._remember_all()
        place = "core" if following.core else "more"
        where = f"next: {following.id} ({place}, {following.minutes} min), in {answer.where}"
        watched = answer.file.resolve() in self.by_place
        return where if watched else f"{where}, which ./hpml watch {following.id} watches"

    def _restore(self) -> str:
        from hpml.course import own_answers, restore

        files = own_answers.files(self._course, self._exercise)
        if not any(path.resolve() in self.by_place for path in files):
            raise UserError(f"r is for {files[0]} alone, which is not watched here")
        said = restore.stub_again(self._course, self._exercise)
        self._remember_all()
        return said

    def _remember_all(self) -> None:
        from hpml.answer import read

        self._remember(answer for path in self._paths for answer in read(path))

    def _remember(self, answers: "Iterable[Answer]") -> None:
        new = self._of_interest(answers)
        self._last |= {(answer.file, answer.exercise): answer.source for answer in new}

    def _of_interest(self, answers: "Iterable[Answer]") -> "tuple[Answer, ...]":
        return tuple(a for a in answers if not self._only or a.exercise in self._only)


def _watched(course: "Course", typed: Iterable[Path]) -> tuple[frozenset[str], tuple[Path, ...]]:
    """The exercises to judge, where they were named (none: all), and the files to watch."""
    from hpml.course import own_answers

    ids, files = own_answers.split(course, typed)
    if not ids and not files:
        return frozenset(), own_answers.files(course)
    if ids and files:
        raise UserError(f"{ids[0]} and {files[0]}: name exercises, or files")
    paths = (*files, *(path for name in ids for path in own_answers.files(course, name)))
    return frozenset(ids), tuple(dict.fromkeys(paths))


def _hand_over() -> int | None:
    """As of a check: a watch may begin with nothing to judge, and will soon have something."""
    from hpml.cli import hand_over

    if not hand_over.may_start:
        return None
    typer.echo("PyTorch starts, which takes some seconds", err=True)
    return hand_over.hand_over(sys.argv[1:], start=True)
