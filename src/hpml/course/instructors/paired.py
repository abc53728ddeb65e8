"""Notebooks in two forms: the percent script that is edited, the .ipynb that is read and run.

The script is the source. The same script always gives the same bytes: cell ids come from the
cells' text, metadata is fixed, and no trace of the machine or the time is kept but the seconds
that a lecture's cells ran, in its metadata.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import jupytext
import nbformat
from jupytext.config import JupytextConfiguration, load_jupytext_configuration_file
from nbformat import NotebookNode

from hpml.errors import UserError
from hpml.files import atomic
from hpml.paths import CHECKOUT

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
_OWN = "hpml"  # the key of what a notebook's metadata has beside METADATA
WIDGETS = ("application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json")


def read_script(path: Path) -> NotebookNode:
    """A percent script as a notebook without outputs, with stable cell ids and tags only."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"{path.parent.name}/{path.name} is missing: write it, or restore it"
        ) from None
    notebook = jupytext.reads(text, fmt="py:percent")
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = NotebookNode({"tags": tags} if tags else {})
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    _name_cells(notebook)
    return notebook


def keep_metadata(notebook: NotebookNode) -> None:
    """Make `jupytext --sync` keep what cells have in the .ipynb alone, in place.

    For what is kept it asks the notebook, not jupytext.toml, and else it takes the script's word
    that cells have no metadata: nbgrader's would be gone, and with it all points.
    """
    notebook.metadata["jupytext"] = {"cell_metadata_filter": _config().cell_metadata_filter}


def script_of(notebook: NotebookNode) -> str:
    """The percent script of a notebook, under the options of the checkout's jupytext.toml."""
    return jupytext.writes(notebook, fmt="py:percent", config=_config())


def _config() -> JupytextConfiguration:
    return load_jupytext_configuration_file(str(CHECKOUT / "jupytext.toml"))


def text_of(notebook: NotebookNode) -> str:
    """The .ipynb file's content."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def tidy(notebook: NotebookNode) -> None:
    """Remove what depends on the kernel or the time from an executed notebook, in place.

    The seconds of its cells stay where they were recorded.
    """
    own = {name: value for name, value in notebook.metadata.items() if name == _OWN}
    notebook.metadata = nbformat.from_dict(METADATA | own)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            output.pop("transient", None)
            for kind in WIDGETS:
                output.get("data", {}).pop(kind, None)
        cell.outputs = [o for o in cell.outputs if "data" not in o or o.data]


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    """A copy with inputs and metadata only, without the seconds of its cells."""
    bare = nbformat.from_dict(notebook)
    bare.metadata.pop(_OWN, None)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return bare


def seconds(notebook: NotebookNode) -> dict[str, float]:
    """The seconds that cells ran when the notebook was executed, by cell id, where recorded."""
    return dict(notebook.metadata.get(_OWN, {}).get("seconds", {}))


def record_seconds(notebook: NotebookNode, taken: Mapping[str, float]) -> None:
    """Record the seconds that cells ran, by cell id, in the notebook's metadata."""
    rounded = {cell: round(value, 1) for cell, value in taken.items()}
    notebook.metadata[_OWN] = nbformat.from_dict({"seconds": rounded})


def write(path: Path, text: str) -> bool:
    """Write a file atomically; returns False, without writing, if it already has this text."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, text)
    return True


def _name_cells(notebook: NotebookNode) -> None:
    # From the text, not the position, so that an inserted cell changes no other id.
    taken: dict[str, int] = {}
    for cell in notebook.cells:
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        taken[digest] = taken.get(digest, 0) + 1
        again = f"-{taken[digest]}" if taken[digest] > 1 else ""
        cell.id = f"{cell.cell_type}-{digest}{again}"


def first_line(source: str) -> str:
    """The title of a cell in a progress line: its first line of code."""
    lines = [line.strip() for line in source.splitlines()]
    code = [line for line in lines if line and not re.match(r"#(?!#)|from |import ", line)]
    return (code or [line for line in lines if line] or ["(empty)"])[0][:60]
