"""Make the committed notebooks of a module, and find those that are out of date.

notebooks/NN_name.py and solutions/NN_name.py are the sources. Each gives its executed .ipynb; the
solution also gives the exercise notebook in both forms.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from hpml.course import folded, picture
from hpml.course.execute import CellRun, NotebookRun, execute
from hpml.course.instructors import paired, readme, where_next
from hpml.course.instructors.committed import faults
from hpml.course.instructors.graded import add_grading, student_version
from hpml.course.schedule import Course, Module
from hpml.errors import UserError

CELL_TIMEOUT = 1200.0  # seconds; the longest cells train a network


@dataclass(frozen=True)
class Finding:
    """A file that is wrong or out of date, relative to the course's root, and why."""

    file: Path
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


def build(
    course: Course,
    modules: Iterable[Module],
    *,
    keep_outputs: bool = False,
    timeout: float = CELL_TIMEOUT,
    say: Callable[[str], None] = lambda line: None,
) -> list[Finding]:
    """Make every file of these modules; returns a finding for each that could not be made.

    With `keep_outputs`, a notebook with the committed one's code cells is not executed again. The
    file of a notebook with a failing cell is not changed.
    """
    found: list[Finding] = []
    for module in modules:
        for path in (module.notebook, module.solution):
            try:
                _make_executed(course, module, path, keep_outputs, timeout, say)
            except (UserError, _CellFailed) as error:
                found.append(Finding(path, str(error)))
        try:
            for path, text in exercise_files(course, module).items():
                written = paired.write(course.root / path, text)
                say(f"{path}: {'written' if written else 'unchanged'}")
        except UserError as error:
            found.append(Finding(module.exercise_notebook, str(error)))
    if found_readme := _check_readme(course):
        page = readme.path(course)
        page.write_text(readme.with_schedule(page.read_text("utf-8"), course), encoding="utf-8")
        say(f"{found_readme.file}: written")
    return [*found, *(f for f in check(course, modules) if f.file not in {g.file for g in found})]


def check(course: Course, modules: Iterable[Module]) -> list[Finding]:
    """Every file that differs from what `build` would make; no notebook is executed."""
    modules = tuple(modules)
    found: list[Finding] = []
    for module in modules:
        for path in (module.notebook, module.solution):
            found += _check_executed(course, module, path)
            found += _check_links(course, module, path)
        try:
            made = exercise_files(course, module)
        except UserError as error:
            found.append(Finding(module.exercise_notebook, str(error)))
            continue
        for path, text in made.items():
            if not (course.root / path).is_file():
                found.append(Finding(path, "missing: run ./hpml build"))
            elif (course.root / path).read_text(encoding="utf-8") != text:
                source = module.solution.with_suffix(".py")
                found.append(Finding(path, f"not what {source} generates: run ./hpml build"))
    if found_readme := _check_readme(course):
        found.append(found_readme)
    return [*found, *_strangers(course)]


def _check_readme(course: Course) -> Finding | None:
    """What is wrong with the schedule in README.md; a course without README.md needs none."""
    page = readme.path(course)
    if not page.is_file():
        return None
    text = page.read_text(encoding="utf-8")
    if readme.with_schedule(text, course) == text:
        return None
    return Finding(
        page.relative_to(course.root), "its table is not course.toml's: run ./hpml build"
    )


def source_notebook(course: Course, module: Module, path: Path) -> NotebookNode:
    """The notebook of a source script, with links, folds and grading metadata, without outputs."""
    script = path.with_suffix(".py")
    notebook = paired.read_script(course.root / script)
    where_next.append(notebook, course, module, lecture=path == module.notebook)
    if path == module.notebook:
        folded.fold(notebook)
    if path == module.solution:
        add_grading(notebook, module, str(script))
    return notebook


def exercise_files(course: Course, module: Module) -> dict[Path, str]:
    """The exercise notebook in both forms, by path."""
    solution = source_notebook(course, module, module.solution)
    student = student_version(solution, str(module.solution.with_suffix(".py")))
    paired.keep_metadata(student)
    path = module.exercise_notebook
    return {path: paired.text_of(student), path.with_suffix(".py"): paired.script_of(student)}


def _make_executed(
    course: Course,
    module: Module,
    path: Path,
    keep_outputs: bool,
    timeout: float,
    say: Callable[[str], None],
) -> None:
    notebook = source_notebook(course, module, path)
    if not (keep_outputs and _take_outputs(notebook, course.root / path)):
        run = _execute(course, path, notebook, timeout, say)
        if path == module.notebook:  # `hpml.course.instructors.core_path` adds them up
            seconds = {notebook.cells[cell.index].id: cell.seconds for cell in run.cells}
            paired.record_seconds(notebook, seconds)
    picture.lighten(notebook)
    paired.tidy(notebook)
    written = paired.write(course.root / path, paired.text_of(notebook))
    say(f"{path}: {'written' if written else 'unchanged'}")


class _CellFailed(Exception):
    """A cell of a notebook failed; the message names the cell and the cause in one line."""


@dataclass(frozen=True)
class _Progress:
    """A progress line for each cell that has ended."""

    path: Path
    say: Callable[[str], None]

    def started(self, run: NotebookRun, cell: CellRun, number: int) -> None:
        pass

    def ended(self, run: NotebookRun, cell: CellRun, number: int) -> None:
        self.say(f"{self.path} {number}/{len(run.cells)}  {cell.seconds:6.1f} s  {cell.title}")


def _execute(
    course: Course, path: Path, notebook: NotebookNode, timeout: float, say: Callable[[str], None]
) -> NotebookRun:
    cells = [
        CellRun(index, paired.first_line(cell.source))
        for index, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and cell.source.strip()
    ]
    run = NotebookRun(course.root / path, notebook, cells)
    home = course.root / "build" / "home"
    home.mkdir(parents=True, exist_ok=True)
    log = course.root / "build" / "logs" / f"{path.parent.name}_{path.stem}.log"
    environment = kernel_environment(os.environ, home)
    execute(run, environment, _Progress(path, say), log=log, cell_timeout=timeout)
    if run.failed:
        number = run.cells.index(run.failed) + 1
        raise _CellFailed(
            f"code cell {number} of {len(run.cells)} ({run.failed.title}): {run.failed.error}"
        )
    if run.error:
        raise _CellFailed(run.error)
    return run


def kernel_environment(outer: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment in which a notebook's outputs are reproducible.

    What the cells store (progress, IPython's settings) goes to `home`, not to the author's.
    """
    # With MPLBACKEND set the kernel draws no figures; a class's board is for learners' checks; the
    # others change tables.
    unwanted = ("MPLBACKEND", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "HPML_CLASS")
    kept = {name: value for name, value in outer.items() if name not in unwanted}
    own = {"HPML_HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "PYTHONHASHSEED": "0"}
    return kept | own | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def _take_outputs(notebook: NotebookNode, committed: Path) -> bool:
    """Copy outputs, and the seconds that they took, of the committed notebook if it has the same
    code cells and was executed completely; returns whether it did."""
    old = _read(committed)
    if old is None or faults(old):
        return False
    new_cells, old_cells = _code(notebook), _code(old)
    if [cell.source for cell in new_cells] != [cell.source for cell in old_cells]:
        return False
    for new, made in zip(new_cells, old_cells, strict=True):
        new.outputs, new.execution_count = made.outputs, made.execution_count
    if seconds := paired.seconds(old):
        paired.record_seconds(notebook, seconds)
    return True


def _check_executed(course: Course, module: Module, path: Path) -> Iterator[Finding]:
    try:
        made = source_notebook(course, module, path)
    except UserError as error:
        yield Finding(path.with_suffix(".py"), str(error))
        return
    committed = _read(course.root / path)
    if committed is None:
        missing = not (course.root / path).is_file()
        yield Finding(path, "missing: run ./hpml build" if missing else "not a Jupyter notebook")
        return
    script = path.with_suffix(".py").name
    difference = _difference(made, paired.without_outputs(committed))
    if difference:
        yield Finding(path, f"not a pair with {script}: {difference}: run ./hpml build")
    for fault in faults(committed):
        yield Finding(path, fault)


def _check_links(course: Course, module: Module, path: Path) -> Iterator[Finding]:
    """Links that a source has itself are the generated ones, in its last cell."""
    script = path.with_suffix(".py")
    try:
        cells = paired.read_script(course.root / script).cells
    except UserError:  # `_check_executed` has found it
        return
    links = where_next.text(course, module, lecture=path == module.notebook)
    if any(map(where_next.is_in, cells)) and cells[-1].source != links:
        yield Finding(script, f"its links are not course.toml's: copy the last cell of {path.name}")


def _difference(made: NotebookNode, committed: NotebookNode) -> str:
    for number, (new, old) in enumerate(zip(made.cells, committed.cells, strict=False), 1):
        for part in ("cell_type", "source", "metadata", "id"):
            if new.get(part) != old.get(part):
                return f"the {part.replace('_', ' ')} of cell {number} differs"
    if len(made.cells) != len(committed.cells):
        return f"{len(made.cells)} cells there, {len(committed.cells)} here"
    return "" if made == committed else "the notebook's metadata differ"


def _strangers(course: Course) -> Iterator[Finding]:
    known = {
        path.with_suffix(suffix)
        for module in course.modules
        for path in (module.notebook, module.solution, module.exercise_notebook)
        for suffix in (".ipynb", ".py")
    }
    for folder in sorted({path.parent for path in known}):
        for path in sorted((course.root / folder).glob("*")):
            relative = path.relative_to(course.root)
            if path.suffix in (".ipynb", ".py") and relative not in known:
                yield Finding(relative, "belongs to no module of course.toml")


def _read(path: Path) -> NotebookNode | None:
    try:
        return nbformat.read(os.fspath(path), as_version=nbformat.NO_CONVERT)
    except Exception:  # nbformat raises many kinds of errors on a broken file
        return None


def _code(notebook: NotebookNode) -> Sequence[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]
