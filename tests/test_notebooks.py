"""Every committed notebook, run again: outputs as committed, stubs failing where they must."""

import os
import re
import secrets
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from hpml import cli, paths
from hpml.answer import exercise_of
from hpml.checks import find
from hpml.course import schedule
from hpml.course.instructors import build
from hpml.course.instructors.committed import faults
from hpml.course.instructors.graded import CHECK
from hpml.data import synthetic
from hpml.ranks import flavour

from .suite import orphans
from .suite.import_graph import check_file

CELL_TIMEOUT = 600  # seconds
NOTEBOOK_TIMEOUT = 1200
RUN = "HPML_TESTS_NOTEBOOK"  # inherited by all that a run of one starts
PLUGIN = Path(__file__).parent / "nbval_plugin"  # alone there: kernels can import from it
COURSE = schedule.load()
# Lectures take longest, and more so later in the day: they begin first.
BACKWARDS = COURSE.modules[::-1]
LIMIT = pytest.mark.timeout(NOTEBOOK_TIMEOUT + 60)
ENGINE = [
    "src/hpml/notebook/__init__.py",
    "src/hpml/checks/run_check.py",
]


def once(kind: str, path: Path) -> pytest.MarkDecorator:
    """All tests that read one notebook's run share a worker, which runs it once.

    Lectures measure: they share one, and never run beside each other.
    """
    return pytest.mark.xdist_group(kind if kind == "lectures" else str(path.with_suffix("")))


def in_turn(kind: str, module: schedule.Module, path: Path) -> pytest.MarkDecorator:
    """A notebook is run again where its cells, what it imports or a check that it calls changed.

    A lecture calls that of an exercise which it names, the others call all of their module's.
    """
    script = path.with_suffix(".py")
    cells = (COURSE.root / script).read_text(encoding="utf-8")
    checks = [
        check_file(exercise.id)
        for exercise in module.exercises
        if kind != "lectures" or f'"{exercise.id}"' in cells
    ]
    committed = (COURSE.root / path).read_text(encoding="utf-8")  # its outputs are compared
    return pytest.mark.in_turn(kind, str(path), [str(script), *ENGINE, *checks], committed)


EXECUTED = [
    pytest.param(
        module,
        path,
        id=str(path.with_suffix("")),
        marks=[once(kind, path), LIMIT, in_turn(kind, module, path)],
    )
    for part, kind in (("notebook", "lectures"), ("solution", "solutions as notebooks"))
    for module in BACKWARDS
    for path in [getattr(module, part)]
]
STUBS = [
    pytest.param(
        module,
        id=module.id,
        marks=[LIMIT, in_turn("exercises as notebooks", module, module.exercise_notebook)],
    )
    for module in BACKWARDS
]


class Ran(NamedTuple):
    """What became of a code cell, its outputs compared with the committed ones."""

    outcome: Literal["passed", "failed", "skipped"]
    message: str
    printed: str


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def run_cells(notebook: Path, scratch: Path, *, cell_timeout: float = CELL_TIMEOUT) -> list[Ran]:
    """Run a notebook; what became of each of its code cells.

    Cells tagged `nbval-ignore-output` run without the comparison. What the cells keep goes to
    `scratch`. A cell after one that timed out is "skipped" (nbval expects it to fail).
    """
    report = scratch / f"{notebook.stem}.xml"
    home = home_in(scratch)
    environment = build.kernel_environment(os.environ, home)
    environment["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), environment.get("PYTHONPATH", "")])
    environment.pop("PYTEST_ADDOPTS", None)
    command = [
        *(sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env"),
        *("-p", "nbval_alive", "-p", "no:cacheprovider", "-p", "no:randomly"),
        *("-c", os.devnull, "--rootdir", str(notebook.parent), "--color=no", "-q"),
        *("--nbval-cell-timeout", str(cell_timeout), f"--junitxml={report}", str(notebook)),
    ]
    environment[RUN] = secrets.token_hex()
    try:
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=NOTEBOOK_TIMEOUT
        )
    finally:
        orphans.end(**{RUN: environment[RUN]})  # its kernel, if it was too late
    assert report.is_file(), f"nbval did not run {notebook.name}:\n{ran.stdout}\n{ran.stderr}"
    return [_outcome(case) for case in ElementTree.parse(report).iter("testcase")]


def home_in(scratch: Path) -> Path:
    """A folder for HPML_HOME with nothing in it but the generated images, made once for all."""
    home = scratch / "home"
    if not home.exists():
        images = synthetic.ensure()
        there = home / images.relative_to(paths.home())
        there.parent.mkdir(parents=True)
        there.symlink_to(images)
    return home


def _outcome(case: ElementTree.Element) -> Ran:
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    printed = properties.get("printed", "")
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            outcome = "skipped" if kind == "skipped" else "failed"
            message = f"{case.get('name')}: {found.get('message')}\n{found.text}"
            return Ran(outcome, message, printed)
    return Ran("passed", "", printed)


@pytest.fixture(scope="session")
def executed(tmp_path_factory) -> Callable[[Path], list[Ran]]:
    """`executed(path)`: a run of that notebook of the course, the same for all who ask.

    One that takes too long does so once.
    """
    runs: dict[Path, list[Ran] | subprocess.TimeoutExpired] = {}

    def run(path: Path) -> list[Ran]:
        if path not in runs:
            try:
                runs[path] = run_cells(COURSE.root / path, tmp_path_factory.mktemp(path.stem))
            except subprocess.TimeoutExpired as late:
                runs[path] = late
        if isinstance(found := runs[path], subprocess.TimeoutExpired):
            raise found
        return found

    return run


def test_what_is_committed_is_what_the_sources_make(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["build", "--check"])
    assert capsys.readouterr().out == "Everything is as it would be made.\n"
    assert ended.value.code == 0


def test_sources_have_the_links_that_jupyterlab_shows() -> None:
    """In a checkout it takes cells from the scripts, and outputs alone from the notebooks."""
    paths = [path for module in COURSE.modules for path in (module.notebook, module.solution)]
    scripts = [COURSE.root / path.with_suffix(".py") for path in paths]
    ends = [script.read_text().rpartition("\n# %%")[2] for script in scripts]
    assert [
        script for script, end in zip(scripts, ends, strict=True) if "# ## Where" not in end
    ] == []


def skip_where_it_cannot_run(module: schedule.Module) -> None:
    for exercise in module.exercises:
        if why := flavour.missing(find(exercise.id).needs):
            pytest.skip(why)


@pytest.mark.parametrize(("module", "path"), EXECUTED)
@pytest.mark.measures
def test_a_notebook_comes_out_as_committed(module: schedule.Module, path: Path, executed) -> None:
    skip_where_it_cannot_run(module)
    assert faults(nbformat.read(COURSE.root / path, as_version=4)) == []
    cells = executed(path)
    assert [cell.message for cell in cells if cell.outcome != "passed"] == []
    assert len(cells) == len(code_cells(COURSE.root / path))


LECTURE_06 = COURSE.module("06").notebook


@once("lectures", LECTURE_06)
@LIMIT  # it may be the first to ask for the run
@in_turn("lectures", COURSE.module("06"), LECTURE_06)
@pytest.mark.measures
def test_every_framework_of_the_lecture_trains(executed) -> None:
    """DDP and Horovod under PyTorch do the same arithmetic, and end with the same accuracy."""
    skip_where_it_cannot_run(COURSE.module("06"))
    row = r"^(\S.*?) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)%$"
    found = re.findall(row, printed_by(executed(LECTURE_06), LECTURE_06, "run(script"), re.M)
    rows = {name: [int(value) for value in values] for name, *values in found}
    expected = {"PyTorch, alone": 1, "PyTorch, DDP": 2, "Keras, alone": 1}
    expected["Keras, MultiWorkerMirroredStrategy"] = 2
    if not flavour.missing("horovod-tensorflow"):
        expected |= {"PyTorch, Horovod": 2, "Keras, Horovod": 2}
    assert {name: rows[name][0] for name in expected} == expected
    for name, (_, _, steps, images_per_second, accuracy) in rows.items():
        assert steps == 32, name  # 2 epochs of 2000 images a rank, 125 in a step
        assert images_per_second > 0, name
        assert accuracy > 12, name  # guessing has 10
    if "PyTorch, Horovod" in rows:
        # Weights differ by rounding: a test image or two may be on the other side.
        assert abs(rows["PyTorch, Horovod"][-1] - rows["PyTorch, DDP"][-1]) <= 1


def printed_by(cells: list[Ran], path: Path, part: str) -> str:
    """What the one code cell printed that has `part` in its source."""
    sources = [cell.source for cell in code_cells(COURSE.root / path)]
    (number,) = [number for number, source in enumerate(sources) if part in source]
    return cells[number].printed


@pytest.mark.parametrize("module", STUBS)
def test_an_exercise_fails_at_its_checks_and_nowhere_else(
    module: schedule.Module, tmp_path: Path
) -> None:
    skip_where_it_cannot_run(module)
    path = COURSE.root / module.exercise_notebook
    ran = run_cells(path, tmp_path)
    cells = code_cells(path)
    assert len(ran) == len(cells)
    kinds = [kind_of(cell) for cell in cells]
    assert kinds.count("check") == len(module.exercises)
    for place, (kind, (outcome, message, _)) in enumerate(zip(kinds, ran, strict=True)):
        if kind == "check":
            assert (outcome, "0 of" in message) == ("failed", True), message
        elif kind == "answer" or "check" not in kinds[:place]:
            assert outcome == "passed", message
        else:  # it tries an answer out, which is not there yet
            assert outcome != "skipped", message


def kind_of(cell: nbformat.NotebookNode) -> str:
    if CHECK.fullmatch(cell.source.strip()):
        return "check"
    return "answer" if exercise_of(cell.source) else "other"


# That the runs above notice what they are there to notice:


def notebook(path: Path, *cells: nbformat.NotebookNode) -> Path:
    for number, cell in enumerate(cells, 1):
        cell.execution_count = number
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def printed(text: str) -> nbformat.NotebookNode:
    return new_output("stream", name="stdout", text=text)


@pytest.fixture
def outcomes_of(tmp_path: Path):
    def run(*cells: nbformat.NotebookNode, cell_timeout: float = 60) -> list[Ran]:
        path = notebook(tmp_path / "small.ipynb", *cells)
        return run_cells(path, tmp_path, cell_timeout=cell_timeout)

    return run


def test_an_output_that_differs_is_noticed_unless_it_is_marked_to_vary(outcomes_of) -> None:
    varying = {"tags": ["nbval-ignore-output"]}
    cells = outcomes_of(
        new_code_cell("print(1)", outputs=[printed("1\n")]),
        new_code_cell("print(2)", outputs=[printed("3\n")]),
        new_code_cell("print(2)", outputs=[printed("3\n")], metadata=varying),
        new_code_cell("1 / 0", metadata=varying),
        new_code_cell("1", metadata={"tags": ["nbval-skip"]}),  # is not taken for a pass
    )
    outcomes = [cell.outcome for cell in cells]
    assert outcomes == ["passed", "failed", "passed", "failed", "skipped"]
    assert [cell.printed for cell in cells[:3]] == ["1\n", "2\n", "2\n"]
    assert "ZeroDivisionError" in cells[3].message


def test_a_kernel_that_dies_is_noticed_long_before_the_timeout(outcomes_of) -> None:
    outcomes = outcomes_of(
        new_code_cell("import os; os._exit(1)"), new_code_cell("1"), cell_timeout=1000
    )
    assert [cell.outcome for cell in outcomes] == ["failed", "failed"]
    assert "the kernel died in this cell" in outcomes[0].message


def test_a_cell_that_never_ends_is_stopped(outcomes_of) -> None:
    outcomes = outcomes_of(new_code_cell("import time; time.sleep(900)"), cell_timeout=2)
    assert outcomes[0].outcome == "failed"
    assert "Timeout of 2 seconds exceeded" in outcomes[0].message
