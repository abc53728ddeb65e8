"""Tracebacks of an answer's cell as a learner wants them: the cell's own lines, nothing of ours."""

import contextlib
import traceback
from collections.abc import Callable

from hpml.checks.library_frames import folded
from hpml.checks.source_lines import in_the_cell, pointed_at


def shortly(error: BaseException, filename: str) -> BaseException:
    """`error`, which a notebook then shows without the frames that ran the cell as a module.

    A syntax error is its line, its place and its message. Of any other, the frames from the answer
    on are shown, those of libraries as one line. `filename` is the answer's, "<ddp>".
    """
    text = _as_text(error, filename)
    if isinstance(error, SyntaxError) and error.filename == filename:
        return _rendered(NotPython(error.msg), lambda: [text])
    return _rendered(error, lambda: [text])


class NotPython(Exception):
    """The cell is not valid Python. IPython shows a SyntaxError in its own way, which is longer."""


def syntax_error_as_text(error: SyntaxError) -> str:
    """The error's line in the cell, the place in it, and what is wrong: three lines."""
    return "\n".join(pointed_at(error, in_the_cell))


def _as_text(error: BaseException, filename: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == filename:
        return syntax_error_as_text(error)
    shown = error.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename != filename:
        shown = shown.tb_next
    lines = traceback.format_exception(type(error), error, shown or error.__traceback__)
    return folded("".join(lines).rstrip())


def _rendered(error: BaseException, render: Callable[[], list[str]]) -> BaseException:
    with contextlib.suppress(AttributeError):  # a class with slots
        error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython asks for it
    return error
