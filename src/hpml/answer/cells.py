"""The cells of a notebook or percent script that anybody may have written.

Reads plain JSON values only. Metadata and outputs are ignored, so that no tag and no stored result
has an effect, whatever their size. Nothing is executed.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from typing import Any, NamedTuple

from hpml.answer.percent import Quotes, uncommented

LARGEST = {".ipynb": 100_000_000, ".py": 1_000_000}  # bytes of a file; no person wrote more
WRITTEN = 20_000_000  # characters of a notebook without its outputs
CELLS = 20_000
BRACKETS = 5_000_000  # and quotes, in a notebook whose outputs are skipped: some seconds
# jupytext's rule: after the marker come a space and options, or nothing.
_MARKER = re.compile(r"\s*#\s*%%(?:%*\s(?P<options>.*)|\s*)")
_KIND = re.compile(r"\[(markdown|md|raw)\]")
_TITLED = re.compile(r"answers?\b.*", re.IGNORECASE)  # `# %% answer ddp`, meant as a magic
_BRACKET = re.compile(r'[\[\]{}"]')
_OPENED = re.compile(r"\s*:\s*[\[{]")  # after a key: its value is a list or an object
_KINDS = {"code": "code", "markdown": "Markdown", "raw": "raw"}  # by cell_type
_IGNORED = ("outputs", "attachments", "metadata")


class Cell(NamedTuple):
    """`number` counts all cells of the file from 1; `kind` is "code", "Markdown" or "raw"."""

    number: int
    source: str
    kind: str = "code"


class Unreadable(Exception):
    """A file cannot be read as cells. The message is a sentence without its subject."""


def of_notebook(data: bytes) -> Iterator[Cell]:
    """The cells of a notebook, but those of unknown kinds. Raises Unreadable."""
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
    found = [_cell(number, cell) for number, cell in enumerate(cells, 1)]
    return (cell for cell in found if cell is not None)


def of_script(data: bytes) -> Iterator[Cell]:
    """The cells of a percent script that may hold an answer, with magics as in a notebook."""
    number, quotes = 0, Quotes()
    cell: list[str] = []
    lines = _text(data).splitlines()
    cells: list[tuple[int, str, list[str]]] = []
    for at, line in enumerate(lines):
        marker = None if quotes.inside else _MARKER.fullmatch(line)
        if marker or at == 0:
            number, cell, quotes = number + 1, [], Quotes()
            title = (marker and marker["options"]) or ""
            kind = _KIND.search(title)
            kind = "code" if kind is None else "raw" if kind[1] == "raw" else "Markdown"
            cells.append((number, kind, cell))
            if _TITLED.fullmatch(title):
                cell.append(f"%% {title}")
        quotes.read_line(line)
        if not marker:
            cell.append(line)
    for number, kind, cell in cells:
        if any("%" in line and "answer" in line.lower() for line in cell):
            lines = uncommented(cell) if kind == "code" else _uncommented(cell)
            yield Cell(number, "\n".join(lines).rstrip("\n"), kind)


def _uncommented(lines: list[str]) -> list[str]:
    """A text cell's lines, which a script has as comments, or in a string's quotes."""
    if not all(line.startswith("#") for line in lines if line.strip()):
        return lines
    return [re.sub("^# ?", "", line) for line in lines]


def _cell(number: int, cell: Any) -> Cell | None:
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        raise Unreadable(f"is not a Jupyter notebook: cell {number} is none")
    if (kind := _KINDS.get(cell["cell_type"])) is None:
        return None
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return Cell(number, "".join(source), kind)
    if isinstance(source, str):
        return Cell(number, source, kind)
    if kind != "code":  # such a cell is shown wrongly, and harms no answer
        return None
    raise Unreadable(f"is not a Jupyter notebook: the source of cell {number} is not text")


def _json(data: bytes) -> Any:
    text = _text(data)
    try:
        if len(text) > WRITTEN:
            text = _without_outputs(text)
        # Parsing a long number can take quadratic time, and only nbformat's is needed.
        return json.loads(
            text, parse_int=lambda digits: int(digits[:9]), parse_float=lambda digits: 0.0
        )
    except RecursionError:
        raise Unreadable("is not a Jupyter notebook: its JSON is nested too deep") from None
    except json.JSONDecodeError as error:
        finding = f"{error.msg.removesuffix(' at')} in line {error.lineno}"
        if not error.doc.rstrip().endswith("}"):
            finding += ", and it ends without a closing bracket: was the upload cut off?"
        raise Unreadable(f"is not a Jupyter notebook: not JSON: {finding}") from None
    except MemoryError:
        raise Unreadable("is not a Jupyter notebook: its JSON needs too much memory") from None


def _without_outputs(text: str) -> str:
    """A notebook's JSON with empty outputs, attachments and metadata.

    Their values are skipped, not parsed: as objects they could take far more memory than as text.
    Raises Unreadable where the rest is too long, JSONDecodeError where a string does not end.
    """
    kept: list[str] = []
    at = since = depth = brackets = 0
    inside = None  # the depth below which the ignored value ends
    while bracket := _BRACKET.search(text, at):
        at = bracket.end()
        brackets += 1
        if brackets > BRACKETS:
            raise Unreadable(f"has more than {BRACKETS} brackets and quotes: clear its outputs")
        if bracket[0] == '"':
            key, at = scanstring(text, at, False)
            # Keys of the notebook itself, and of a cell in its list of cells
            ignored = inside is None and depth in (1, 3) and key in _IGNORED
            if ignored and (value := _OPENED.match(text, at)):
                kept.append(text[since : value.end()])
                inside, depth, at, since = depth, depth + 1, value.end(), len(text)
        elif bracket[0] in "[{":
            depth += 1
        else:
            depth -= 1
            if depth == inside:
                since, inside = bracket.start(), None
    rest = "".join([*kept, text[since:]])
    if len(rest) > WRITTEN:
        most = f"{WRITTEN // 10**6} MB"
        raise Unreadable(
            f"has more than {most} without its outputs: take large data out of its text"
        )
    return rest


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")  # some Windows editors write a byte order mark
    except UnicodeDecodeError:
        raise Unreadable("is not UTF-8 text") from None
