"""The day on this machine: every module's lecture and solution notebook, executed in order.

A solution notebook is an exercise notebook with right answers. The committed notebooks are only
read; executed copies, the kernels' logs and what notebooks write to HPML_HOME go below the output
folder. The learner's own progress is not changed.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import nbformat

from hpml.course.execute import Listener, NotebookRun, execute, open_notebook
from hpml.course.schedule import Course, Module
from hpml.errors import UserError

Kind = Literal["lecture", "solution"]
KINDS: tuple[Kind, ...] = ("lecture", "solution")
_MARKER = ".hpml-report"  # marks a folder that a report was written to


@dataclass(frozen=True)
class DataUsed:
    """The images that the notebooks train on: `folder` becomes their HPML_DATA."""

    folder: Path
    description: str  # in words, for people
    synthetic: bool


@dataclass
class ModuleRun:
    """A module's notebooks: the lecture, and the solution where there is one."""

    module: Module
    notebooks: dict[Kind, NotebookRun]


@dataclass
class CourseRun:
    """The selected modules and how far they were executed."""

    course: Course
    modules: list[ModuleRun]
    data: DataUsed
    began: datetime = field(default_factory=lambda: datetime.now().astimezone())
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def notebooks(self) -> list[NotebookRun]:
        return [run for module in self.modules for run in module.notebooks.values()]


def plan(course: Course, names: Sequence[str], data: DataUsed) -> CourseRun:
    """The named modules, or all of them, with no cell run yet.

    Without a folder of solutions, as in a release for learners, only the lectures are planned.
    Raises UserError for a module that is not in course.toml or whose notebooks cannot be read.
    """
    modules = [
        ModuleRun(
            module,
            {
                kind: _open(course.root, path)
                for kind, path in zip(KINDS, (module.notebook, module.solution), strict=True)
                if kind == "lecture" or (course.root / path).parent.is_dir()
            },
        )
        for module in course.select(names)
    ]
    return CourseRun(course, modules, data)


def prepare(out: Path) -> None:
    """Make the output folder, or remove an earlier run's report from it.

    Raises UserError if the folder holds any other file: those must not be removed.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file: name a folder")
    try:
        if out.is_dir() and any(out.iterdir()) and not (out / _MARKER).exists():
            raise UserError(f"--out {out} has files in it but no report: name a new folder")
        out.mkdir(parents=True, exist_ok=True)
        (out / _MARKER).touch()
    except OSError as error:
        wanted = "name a folder that can be written to"
        raise UserError(f"--out {out}: {error.strerror}: {wanted}") from None
    for made in ("home", "logs", "notebooks"):
        shutil.rmtree(out / made, ignore_errors=True)
    for page in out.glob("*.html"):
        page.unlink()


def run_course(
    run: CourseRun, out: Path, listener: Listener, *, cell_timeout: float = 1200.0
) -> None:
    """Execute all notebooks of `run` and save executed copies below `out`.

    After a notebook that fails, the next ones still run. Ctrl-C stops the run: KeyboardInterrupt is
    not raised but recorded in `run.interrupted`.
    """
    began = time.monotonic()
    try:
        for module in run.modules:
            for kind, notebook in module.notebooks.items():
                stem = page_name(module.module, kind)
                environment = _environment(os.environ, run.data, out)
                log = out / "logs" / f"{stem}.log"
                try:
                    execute(notebook, environment, listener, log=log, cell_timeout=cell_timeout)
                finally:
                    copy = out / "notebooks" / f"{stem}.ipynb"
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    nbformat.write(notebook.notebook, copy)
                    run.seconds = time.monotonic() - began
    except KeyboardInterrupt:
        run.interrupted = True


def page_name(module: Module, kind: Kind) -> str:
    """The name of a module's notebook in the output folder, without a suffix."""
    return f"{module.stem}_{kind}"


def _open(root: Path, path: Path) -> NotebookRun:
    try:
        return open_notebook(root / path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: restore it from the repository") from None
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines()[0][:120]
        raise UserError(f"{path} is not a notebook: {first}") from None


def _environment(outer: Mapping[str, str], data: DataUsed, out: Path) -> dict[str, str]:
    return {
        **outer,
        "HPML_DATA": str(data.folder.resolve()),
        # This run's answers and progress are separate from the learner's.
        "HPML_HOME": str((out / "home").resolve()),
        "HPML_CLASS": "",
        # With a backend from the terminal's environment, notebooks would have no figures.
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
