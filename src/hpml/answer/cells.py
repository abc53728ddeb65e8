"""The code cells of a notebook or percent script that anybody may have written.

Reads plain JSON values only. Metadata and outputs are ignored, so that no tag and no stored result
has an effect. Nothing is executed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

CELLS = 20_000
# jupytext's rule: after the marker come a space and options, or nothing.
_MARKER = re.compile(r"\s*#\s*%%(?:%*\s(?P<options>.*)|\s*)")
_NO_CODE = re.compile(r"\[(?:markdown|md|raw)\]")


class Unreadable(Exception):
    """A file cannot be read as cells. The message is a sentence without its subject."""


def of_notebook(data: bytes) -> Iterator[tuple[int, str]]:
    """Number, counting all cells from 1, and source of each code cell. Raises Unreadable."""
    notebook = _json(data)
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Unreadable("is not a Jupyter notebook: it has no nbformat")
    if (version := notebook["nbformat"]) != 4:
        raise Unreadable(
            f"has nbformat {str(version)[:20]}: open it in JupyterLab and save it, which makes it 4"
        )
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        raise Unreadable("is not a Jupyter notebook: it has no list of cells")
    if len(cells) > CELLS:
        raise Unreadable(f"has {len(cells)} cells, at most {CELLS} are read")
    sources = [_source(number, cell) for number, cell in enumerate(cells, 1)]
    return ((number, source) for number, source in enumerate(sources, 1) if source is not None)


def of_script(data: bytes) -> Iterator[tuple[int, str]]:
    """The same for a percent script, with commented magics as in a notebook."""
    # Imported here: ranks import this package and do not need jupytext.
    from jupytext.magics import uncomment_magic
    from jupytext.stringparser import StringParser

    number, cell, quotes, code = 0, [], StringParser("python"), True
    lines = _text(data).splitlines()
    cells: list[tuple[int, bool, list[str]]] = []
    for at, line in enumerate(lines):
        marker = None if quotes.is_quoted() else _MARKER.fullmatch(line)
        if marker or at == 0:
            number, cell, quotes = number + 1, [], StringParser("python")
            code = not (marker and _NO_CODE.search(marker["options"] or ""))
            cells.append((number, code, cell))
        quotes.read_line(line)
        if not marker:
            cell.append(line)
    for number, code, cell in cells:
        if code and any("%%answer" in line for line in cell):
            yield number, "\n".join(uncomment_magic(cell)).rstrip("\n")


def _source(number: int, cell: Any) -> str | None:
    """A code cell's text; None for a cell that is not code."""
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        raise Unreadable(f"is not a Jupyter notebook: cell {number} is none")
    if cell["cell_type"] != "code":
        return None
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    if not isinstance(source, str):
        raise Unreadable(f"is not a Jupyter notebook: the source of cell {number} is not text")
    return source


def _json(data: bytes) -> Any:
    try:
        # Parsing a long number can take quadratic time, and only nbformat's is needed.
        return json.loads(
            _text(data), parse_int=lambda digits: int(digits[:9]), parse_float=lambda digits: 0.0
        )
    except RecursionError:
        raise Unreadable("is not a Jupyter notebook: its JSON is nested too deep") from None
    except json.JSONDecodeError as error:
        finding = f"{error.msg} in line {error.lineno}"
        raise Unreadable(f"is not a Jupyter notebook: not JSON: {finding}") from None
    except MemoryError:
        raise Unreadable("is not a Jupyter notebook: its JSON needs too much memory") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")  # some Windows editors write a byte order mark
    except UnicodeDecodeError:
        raise Unreadable("is not UTF-8 text") from None
