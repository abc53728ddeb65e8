"""The last cell of every notebook: links from lecture to exercises, and on to the next module.

It is generated from course.toml. Links are relative, as JupyterLab follows them.

The course's sources have it too: in a checkout JupyterLab shows the cells of the script. There it
is typed, and `./hpml build --check` compares.
"""

from collections.abc import Iterable

import nbformat
from nbformat import NotebookNode

from hpml.course.schedule import Course, Exercise, Module

HEADING = "## Where next"
IN_SCRIPT = f"# %% [markdown]\n# {HEADING}\n"  # how the cell begins in a script


def is_in(cell: NotebookNode) -> bool:
    """Whether this cell is the one with the links."""
    return cell.cell_type == "markdown" and cell.source.startswith(HEADING)


def append(notebook: NotebookNode, course: Course, module: Module, lecture: bool) -> None:
    """Put the cell with links at the end of a module's lecture, or of its exercises, in place.

    One that is there is replaced.
    """
    links = nbformat.v4.new_markdown_cell(text(course, module, lecture), id="where-next")
    notebook.cells = [*(cell for cell in notebook.cells if not is_in(cell)), links]


def text(course: Course, module: Module, lecture: bool) -> str:
    """What the cell has."""
    links = after_lecture(module) if lecture else after_exercises(course, module)
    return f"{HEADING}\n\n{links}"


def after_lecture(module: Module) -> str:
    """The exercises of a lecture's module, those of the core path first."""
    link = f"[exercises](../{module.exercise_notebook.as_posix()})"
    more = [exercise for exercise in module.exercises if not exercise.core]
    parts = [f"first {_listed(module.core)}"] if module.core else []
    parts += [f"for the evening {_listed(more)}"] if more else []
    return f"The {link} of this module: {'; '.join(parts)}." if parts else f"The {link}."


def after_exercises(course: Course, module: Module) -> str:
    """The next module's lecture, and the way back to this module's own."""
    at = [other.id for other in course.modules].index(module.id)
    back = f"The [lecture](../{module.notebook.as_posix()}) of these exercises."
    rest = "`./hpml list` in a terminal shows what is done and what is left."
    if at + 1 == len(course.modules):
        return f"This was the last module. {rest}\n\n{back}"
    following = course.modules[at + 1]
    lecture = f"[{following.id} {following.title}](../{following.notebook.as_posix()})"
    exercises = f"[exercises]({following.exercise_notebook.name})"
    return f"The next lecture is {lecture}; then come its {exercises}. {rest}\n\n{back}"


def _listed(exercises: Iterable[Exercise]) -> str:
    return ", ".join(f"`{exercise.id}`" for exercise in exercises)
