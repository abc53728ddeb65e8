"""After `%load_ext hpml` a notebook has `%%ranks` and `%ranks`, `%%answer` and `check`, and
`show_tensorboard`."""

import base64
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import cloudpickle
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from hpml.answer.module import as_module
from hpml.errors import UserError
from hpml.notebook.short_traceback import shortly, syntax_error_as_text
from hpml.notebook.taken import Taken
from hpml.publish import FIGURE, VERDICT

if TYPE_CHECKING:
    from hpml.checks.verdict import Verdict

# Causes of a verdict on an answer that did not run, or ran too long to run it once more
NOT_SHOWN = ("unwritten", "missing name", "not allowed", "ours", "limit", "flood")

_answers: dict[str, Taken] = {}


class NotYet(Exception):
    """The answer does not pass yet: the verdict is above. Shown as one line, without a traceback.

    An exception, so that "run all" stops here, and so that nbgrader and nbval see it.
    """

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def answer(line: str, cell: str) -> None:
    """`%%answer ID`: take the cell as the answer to exercise ID, and run it here.

    It runs as a module of its own, as it will on the ranks, so it needs its own imports, of what an
    answer may import. What it defines is then there in the notebook too, to be tried out.
    """
    from hpml.answer import enforce
    from hpml.checks.registry import find
    from hpml.ranks import flavour

    exercise, shell = line.strip(), InteractiveShell.instance()
    if not exercise:
        raise UsageError("%%answer: name the exercise, for example: %%answer ddp")
    try:
        check = find(exercise)
    except UserError as error:
        raise UsageError(f"%%answer: {error}") from None
    source = f"# %%answer {exercise}\n{cell}"
    # Taken first: an answer that fails to run is still the answer
    _answers[exercise] = Taken.now(exercise, source, shell)
    if why := flavour.missing(check.needs):
        print(f"The answer is taken, and not run here: {why}")
        return
    if flavour.with_tensorflow(check.needs):
        flavour.preload(check.needs)  # as on the ranks: no start-up messages; Keras 2 with Horovod
    filename = f"<{exercise}>"
    try:
        module = as_module(source, filename, enforce.importing(check.rules, filename))
    except (Exception, KeyboardInterrupt) as error:
        raise shortly(error, filename) from None
    cloudpickle.register_pickle_by_value(module)  # so that %%ranks can send what it defines
    shell.push({k: v for k, v in vars(module).items() if not k.startswith("__")})


class _Checking:
    """`check("ddp")` judges the answer to an exercise; `check.hint()` then gives a hint,
    and `check.answer()` after a pass the course's own answer."""

    def __init__(self) -> None:
        self._last = ""  # the exercise that was checked last

    def __call__(self, exercise: str = "", seed: int | None = None, stacks: bool = False) -> None:
        """Judge the answer to `exercise`, or the one that was run last, and show the verdict.

        The answer is the `%%answer` cell that was run last for it in this kernel. Inputs are fresh
        each time; `seed` repeats those of an earlier verdict. Raises NotYet where a claim does not
        hold, and not where this machine merely cannot judge one.
        """
        from hpml.answer import syntax_error
        from hpml.checks import find, judge
        from hpml.course import progress

        if not exercise and not _answers:
            raise NotYet("this kernel has no answer yet: run a cell that begins with %%answer")
        exercise = exercise or max(_answers.values(), key=lambda taken: taken.at).exercise
        try:
            find(exercise)
        except UserError as error:
            raise NotYet(str(error)) from None
        self._last = exercise
        if exercise not in _answers:
            raise NotYet(
                f"{exercise}: this kernel has no answer yet: run the cell that begins with "
                f"%%answer {exercise}, then this one"
            )
        taken = _answers[exercise]
        note = taken.note(InteractiveShell.instance())
        if error := syntax_error(taken.source):
            raise NotYet("\n".join([f"{exercise}: not valid Python", syntax_error_as_text(error)]))
        try:
            verdict = judge(exercise, taken.source, seed=seed)
            progress.record(verdict, taken.source)
            _show(verdict, note, stacks)
            _show_picture(verdict, taken.source)
            _show_standing(verdict, taken.source)
        except KeyboardInterrupt:
            raise NotYet(f"{exercise}: interrupted, and not judged") from None
        if not any(claim.judged for claim in verdict.claims):
            raise NotYet(verdict.headline)
        if not verdict.nothing_failed:
            raise NotYet(
                f"{exercise}: {verdict.earned} of {verdict.points} points; change the answer cell, "
                "run it, and check again (the same inputs, in a new cell: "
                f'check("{exercise}", seed={verdict.seed}))'
            )

    def hint(self, exercise: str | None = None) -> None:
        """Show the next hint of the exercise that was checked last here, or of the one named: first
        how to start, then what helps with what failed, and how to go on."""
        from hpml.course import hints

        exercise = self._meant(exercise, "hint")
        try:
            print(hints.following(exercise, f'check.hint("{exercise}")'))
        except UserError as error:
            raise NotYet(str(error)) from None

    def answer(self, exercise: str | None = None) -> None:
        """Show the course's own answer, and what leads to it from yours: once yours has passed, or
        you have read the last hint."""
        from hpml.course import reference, schedule

        exercise = self._meant(exercise, "answer")
        own = _answers[exercise].source if exercise in _answers else None
        hint = f'check.hint("{exercise}")'
        try:
            opened = reference.opened(schedule.load(), exercise, hint, own)
        except UserError as error:
            raise NotYet(str(error)) from None
        both = {"text/plain": opened.as_text(), "text/markdown": opened.as_markdown()}
        display(both, raw=True)

    def _meant(self, exercise: str | None, what: str) -> str:
        if not (exercise or self._last):
            raise NotYet(f'nothing was checked here yet: name the exercise, check.{what}("ddp")')
        return exercise or self._last


check = _Checking()


def _show(verdict: "Verdict", note: str, stacks: bool) -> None:
    from hpml.checks import find
    from hpml.checks.render import as_html, as_text

    record = verdict.record()
    if verdict.nothing_failed:
        # The same answer then has the same output, whenever it is run.
        record = verdict.lasting_record()
        if find(verdict.exercise).prints:
            verdict = replace(verdict, printed="")
    text = as_text(verdict, stacks)
    display(
        {
            "text/plain": f"{text}\n  {note}" if note else text,
            "text/html": as_html(verdict, [note] if note else []),
            VERDICT: record,
        },
        raw=True,
    )


def _show_picture(verdict: "Verdict", source: str) -> None:
    """Show the answer at work, where the exercise has a picture of that and the answer runs."""
    from hpml.checks import find
    from hpml.ranks.parent.warm import ServerDied

    check = find(verdict.exercise)
    if check.picture is None or verdict.cause in NOT_SHOWN:
        return
    try:
        picture = check.picture(check, source)
    except (ValueError, UserError, ServerDied):  # the verdict stands without a picture
        return
    image = base64.b64encode(picture.png).decode("ascii")
    display({"text/plain": picture.words, "image/png": image}, raw=True, metadata=FIGURE)


def _show_standing(verdict: "Verdict", source: str) -> None:
    """What was measured beside a library, what is done and what is next, below a verdict that
    passes. In ./hpml lab alone: committed notebooks have the same output whatever else is done."""
    from hpml.checks.beside_library import beside_library
    from hpml.course import lab, progress, schedule

    if verdict.passed and os.environ.get(lab.STANDING):
        measured = beside_library(verdict.exercise, source)
        print("\n".join([*measured, *progress.after_a_pass(schedule.load(), verdict.exercise)]))


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics, and start importing torch for the ranks in the background."""
    from hpml.notebook.kept_ranks import kept_ranks
    from hpml.notebook.ranks_magic import ranks
    from hpml.notebook.tensorboard_frame import show_tensorboard
    from hpml.ranks.parent import warm

    # Else torch.profiler prints two lines of its own about each profile. Ranks inherit it.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    register: Callable[..., None] = shell.register_magic_function  # IPython leaves its self in
    register(ranks, "cell", "ranks")
    register(kept_ranks, "line", "ranks")
    register(answer, "cell", "answer")
    shell.push({"check": check, "show_tensorboard": show_tensorboard})
    warm.server()
