"""Every committed notebook, run again: outputs as committed, stubs failing where they must."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from hpml import paths
from hpml.answer import exercise_of
from hpml.checks import find
from hpml.course import build, schedule
from hpml.course.committed import faults
from hpml.course.graded import CHECK
from hpml.data import synthetic
from hpml.ranks import flavour

CELL_TIMEOUT = 600  # seconds
NOTEBOOK_TIMEOUT = 1200
HERE = Path(__file__).parent
COURSE = schedule.load()
# Lectures take longest, and more so later in the day: they begin first.
BACKWARDS = COURSE.modules[::-1]
MODULES = [pytest.param(module, id=module.id) for module in BACKWARDS]
EXECUTED = [
    pytest.param(module, getattr(module, kind), id=str(getattr(module, kind).with_suffix("")))
    for kind in ("notebook", "solution")
    for module in BACKWARDS
]


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def run_cells(
    notebook: Path, scratch: Path, *, cell_timeout: float = CELL_TIMEOUT
) -> list[tuple[str, str]]:
    """("passed" | "failed" | "skipped", message) for each code cell, outputs compared.

    Cells tagged `nbval-ignore-output` run without the comparison. What the cells keep goes to
    `scratch`. A cell after one that timed out is "skipped" (nbval expects it to fail).
    """
    report = scratch / f"{notebook.stem}.xml"
    home = home_in(scratch)
    environment = build.kernel_environment(os.environ, home)
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), environment.get("PYTHONPATH", "")])
    environment.pop("PYTEST_ADDOPTS", None)
    command = [
        *(sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env"),
        *("-p", "nbval_alive", "-p", "no:cacheprovider", "-p", "no:randomly"),
        *("-c", os.devnull, "--rootdir", str(notebook.parent), "--color=no", "-q"),
        *("--nbval-cell-timeout", str(cell_timeout), f"--junitxml={report}", str(notebook)),
    ]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=NOTEBOOK_TIMEOUT
    )
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


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            outcome = "skipped" if kind == "skipped" else "failed"
            return outcome, f"{case.get('name')}: {found.get('message')}\n{found.text}"
    return "passed", ""


def test_what_is_committed_is_what_the_sources_make() -> None:
    assert [str(finding) for finding in build.check(COURSE, COURSE.modules)] == []


def skip_where_it_cannot_run(module: schedule.Module) -> None:
    for exercise in module.exercises:
        if why := flavour.missing(find(exercise.id).needs):
            pytest.skip(why)


@pytest.mark.parametrize(("module", "path"), EXECUTED)
def test_a_notebook_comes_out_as_committed(
    module: schedule.Module, path: Path, tmp_path: Path
) -> None:
    skip_where_it_cannot_run(module)
    assert faults(nbformat.read(COURSE.root / path, as_version=4)) == []
    outcomes = run_cells(COURSE.root / path, tmp_path)
    assert [message for outcome, message in outcomes if outcome != "passed"] == []
    assert len(outcomes) == len(code_cells(COURSE.root / path))


@pytest.mark.parametrize("module", MODULES)
def test_an_exercise_fails_at_its_checks_and_nowhere_else(
    module: schedule.Module, tmp_path: Path
) -> None:
    skip_where_it_cannot_run(module)
    path = COURSE.root / module.exercise_notebook
    outcomes = run_cells(path, tmp_path)
    cells = code_cells(path)
    assert len(outcomes) == len(cells)
    kinds = [kind_of(cell) for cell in cells]
    assert kinds.count("check") == len(module.exercises)
    for place, (kind, (outcome, message)) in enumerate(zip(kinds, outcomes, strict=True)):
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
    def run(*cells: nbformat.NotebookNode, cell_timeout: float = 60) -> list[tuple[str, str]]:
        path = notebook(tmp_path / "small.ipynb", *cells)
        return run_cells(path, tmp_path, cell_timeout=cell_timeout)

    return run


def test_an_output_that_differs_is_noticed_unless_it_is_marked_to_vary(outcomes_of) -> None:
    varying = {"tags": ["nbval-ignore-output"]}
    outcomes = outcomes_of(
        new_code_cell("print(1)", outputs=[printed("1\n")]),
        new_code_cell("print(2)", outputs=[printed("3\n")]),
        new_code_cell("print(2)", outputs=[printed("3\n")], metadata=varying),
        new_code_cell("1 / 0", metadata=varying),
    )
    assert [outcome for outcome, _ in outcomes] == ["passed", "failed", "passed", "failed"]
    assert "ZeroDivisionError" in outcomes[3][1]


def test_a_kernel_that_dies_is_noticed_long_before_the_timeout(outcomes_of) -> None:
    outcomes = outcomes_of(
        new_code_cell("import os; os._exit(1)"), new_code_cell("1"), cell_timeout=1000
    )
    assert [outcome for outcome, _ in outcomes] == ["failed", "failed"]
    assert "the kernel died in this cell" in outcomes[0][1]


def test_a_cell_that_never_ends_is_stopped(outcomes_of) -> None:
    outcomes = outcomes_of(new_code_cell("import time; time.sleep(900)"), cell_timeout=2)
    assert outcomes[0][0] == "failed"
    assert "Timeout of 2 seconds exceeded" in outcomes[0][1]


def test_a_cell_marked_to_be_skipped_is_not_taken_for_a_pass(outcomes_of) -> None:
    tagged = new_code_cell("1 / 0", metadata={"tags": ["nbval-skip"]})
    assert [outcome for outcome, _ in outcomes_of(tagged)] == ["skipped"]
