"""An answer as a kernel has it: the text of a cell at the moment when it was run."""

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from hpml.answer import cells, exercise_of


@dataclass(frozen=True)
class Taken:
    """An answer, and when it was run: the wall-clock time, and the number of its execution."""

    exercise: str
    source: str
    at: datetime
    execution: int

    @classmethod
    def now(cls, exercise: str, source: str, shell: InteractiveShell) -> "Taken":
        """The answer in a cell that runs at this moment."""
        return cls(exercise, source, datetime.now().astimezone(), shell.execution_count)

    def note(self, shell: InteractiveShell) -> str:
        """Which text it is that `check` judges, where a reader of the notebook may be mistaken.

        The kernel does not see what is typed into a cell, only what is saved. So there is no note
        where the answer was run just before this execution, and else the time at which it was.
        """
        when = f"judged: the answer that was run at {self.at:%H:%M}"
        if self._saved_otherwise():
            return f"{when}. Its cell was edited since: run the cell, then check again."
        if shell.execution_count <= self.execution + 1:
            return ""
        return f"{when}; if you have edited its cell since, run the cell first."

    def _saved_otherwise(self) -> bool:
        """Whether the notebook's file has another text in the answer's cell."""
        saved = _saved_answer(self.exercise, self.at)
        return saved is not None and _text(saved) != _text(self.source)


def _text(source: str) -> str:
    """The source below its magic line, without blanks at the ends."""
    return source.partition("\n")[2].strip()


def _saved_answer(exercise: str, since: datetime) -> str | None:
    """The answer's cell in the notebook's file, if that was saved after `since`; else None.

    Jupyter's server names the file in the kernel's environment.
    """
    path = Path(os.environ.get("JPY_SESSION_NAME", ""))
    if path.suffix != ".ipynb":
        return None
    try:
        if path.stat().st_mtime <= since.timestamp():
            return None
        found = [
            cell.source
            for cell in cells.of_notebook(path.read_bytes())
            if cell.kind == "code" and exercise_of(cell.source) == exercise
        ]
    except (OSError, cells.Unreadable, json.JSONDecodeError):
        return None
    return found[0] if len(found) == 1 else None
