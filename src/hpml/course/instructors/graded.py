"""A solution notebook's grading metadata, and the exercise notebook that nbgrader makes from it.

An answer cell (`%%answer ID`) becomes a solution cell, its check cell (`check("ID")`) a graded one
with the points of its check. Both are found by their text; metadata is never typed by hand, nor is
the line below an exercise's heading that says whether it is on the core path.
"""

import copy
import re
from typing import Any

from nbformat import NotebookNode

from hpml.answer import as_python, exercise_of
from hpml.course.schedule import Exercise, Module
from hpml.errors import UserError

CHECK = re.compile(r"""check\(["'](\w+)["']\)""")
PLACE = re.compile(
    r"(?:\n\n\*\*(?:Core|More)\*\*, [^\n]*)?(?=\n|\Z)"
)  # after an exercise's heading
SETUP = re.compile(r"%load_ext[ \t]+hpml\b", re.MULTILINE)


def add_grading(notebook: NotebookNode, module: Module, name: str) -> None:
    """Mark answer and check cells for nbgrader, in place, and lock the explanations.

    Below each exercise's heading (## `ID`) comes its place: core or more, and its minutes. Markdown
    and the set-up cell are locked, other code cells are free. Raises UserError, naming
    the file `name`, if the cells and course.toml do not agree.
    """
    points = {exercise.id: exercise.points for exercise in module.exercises}
    answered: list[str] = []
    checked: list[str] = []
    for number, cell in enumerate(notebook.cells, 1):
        where = f"{name}, cell {number}"
        exercise = exercise_of(cell.source) if cell.cell_type == "code" else None
        check = CHECK.fullmatch(cell.source.strip()) if cell.cell_type == "code" else None
        if exercise:
            _require_listed(exercise, points, module, where)
            _require_solution_marks(cell.source, where)
            answered.append(exercise)
            _mark(cell, f"answer-{exercise}", solution=True)
        elif check:
            exercise = check[1]
            _require_listed(exercise, points, module, where)
            if exercise not in answered:
                raise UserError(f"{where}: check({exercise!r}) comes before %%answer {exercise}")
            checked.append(exercise)
            _mark(cell, f"check-{exercise}", grade=True, locked=True, points=points[exercise])
        elif cell.cell_type == "markdown" or SETUP.search(cell.source):
            _mark(cell, cell.id, locked=True)
    for exercise in points:
        for found, what in ((answered, f"%%answer {exercise}"), (checked, f'check("{exercise}")')):
            if found.count(exercise) != 1:
                raise UserError(f"{name}: {found.count(exercise)} cells are {what}, expected one")
    for exercise in module.exercises:
        _put_place(notebook, exercise, name)


def student_version(solution: NotebookNode, name: str) -> NotebookNode:
    """What `nbgrader generate_assignment` makes from a solution notebook with grading metadata.

    Runs its preprocessors in its order, except IncludeHeaderFooter (there is no header),
    InstantiateTests (tests are `check`, not autotests.yml), and SaveCells with its checksums (they
    are for an instructor's gradebook, which a checkout does not have).
    """
    from nbgrader.preprocessors import (
        CheckCellMetadata,
        ClearHiddenTests,
        ClearMarkScheme,
        ClearOutput,
        ClearSolutions,
        ComputeChecksums,
        LockCells,
    )

    steps = (
        LockCells(),
        ClearSolutions(),
        ClearOutput(),
        CheckCellMetadata(),
        ClearHiddenTests(),
        ClearMarkScheme(),
        ComputeChecksums(),
        CheckCellMetadata(),
    )
    notebook = copy.deepcopy(solution)
    resources: dict[str, Any] = {}
    try:
        for step in steps:
            notebook, resources = step.preprocess(notebook, resources)
    except RuntimeError as error:
        raise UserError(f"{name}: nbgrader: {' '.join(str(error).split())}") from None
    for number, cell in enumerate(notebook.cells, 1):
        if exercise_of(cell.source):
            _require_valid_stub(cell.source, f"{name}, cell {number}")
    return notebook


def place(exercise: Exercise) -> str:
    """What an exercise's first line says: is it on the core path, and how long does it take?"""
    if exercise.core:
        return f"**Core**, about {exercise.minutes} minutes."
    return f"**More**, about {exercise.minutes} minutes: after the core exercises, or at home."


def _put_place(notebook: NotebookNode, exercise: Exercise, name: str) -> None:
    heading = re.compile(rf"^## `{exercise.id}`[^\n]*", re.MULTILINE)
    for cell in notebook.cells:
        found = heading.search(cell.source) if cell.cell_type == "markdown" else None
        if found:
            # One that is there is replaced: JupyterLab writes it to the .py as well, when it saves
            # the .ipynb.
            rest = PLACE.sub("", cell.source[found.end() :], count=1)
            cell.source = f"{cell.source[: found.end()]}\n\n{place(exercise)}{rest}"
            return
    raise UserError(f"{name}: no text begins with the heading ## `{exercise.id}`")


def _mark(cell: NotebookNode, grade_id: str, **fields: object) -> None:
    cell.id = grade_id
    flags = {"grade": False, "locked": False, "solution": False, "task": False}
    cell.metadata["nbgrader"] = NotebookNode(
        {"schema_version": 3, "grade_id": grade_id, **flags, **fields}
    )


def _require_listed(exercise: str, points: dict[str, int], module: Module, where: str) -> None:
    if exercise not in points:
        raise UserError(
            f"{where}: exercise {exercise!r} is not in course.toml under module {module.id}"
        )


def _require_solution_marks(source: str, where: str) -> None:
    begins, ends = source.count("### BEGIN SOLUTION"), source.count("### END SOLUTION")
    if begins < 1 or begins != ends:
        raise UserError(
            f"{where}: {begins} BEGIN and {ends} END SOLUTION marks: an answer has at least one "
            "pair, or its stub would be empty"
        )


def _require_valid_stub(source: str, where: str) -> None:
    try:
        compile(as_python(source), where, "exec")
    except SyntaxError as error:
        raise UserError(
            f"{where}: the stub is not valid Python at line {error.lineno or 0}: {error.msg}"
        ) from None
