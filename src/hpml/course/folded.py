"""Concluding cells are folded, so that the answer is not read before the cell has run.

A lecture asks, measures, and then concludes in a cell of its own, whose source is the whole answer.
JupyterLab hides the source of a cell with `jupyter.source_hidden`, and shows its outputs; the
report folds it too.
"""

import re

from nbformat import NotebookNode

_CONCLUDES = re.compile(r"^ *conclude\(", re.MULTILINE)


def concludes(cell: NotebookNode) -> bool:
    """Whether a cell calls `hpml.publish.conclude`."""
    return cell.cell_type == "code" and bool(_CONCLUDES.search(cell.source))


def fold(notebook: NotebookNode) -> None:
    """Fold the concluding cells of a lecture, in place."""
    for cell in filter(concludes, notebook.cells):
        cell.metadata["jupyter"] = {"source_hidden": True}


def is_folded(cell: NotebookNode) -> bool:
    """Whether the source of a cell is hidden until its reader asks for it."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
