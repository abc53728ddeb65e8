"""Faults of a committed notebook: cells that did not run, errors, paths of the machine."""

import json
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from hpml.publish import CONCLUSION

LARGEST = 2_000_000  # bytes of outputs; more makes a clone slow, and no page needs it
SKIPS = ("nbval-skip",)
SKIP_COMMENT = re.compile(r"^\s*#+\s*NBVAL_SKIP\s*$", re.MULTILINE)
PLACE = re.compile(r"(?:/home/|/Users/|/root/|/tmp/|[A-Z]:\\Users\\)[\w.-]+|site-packages/\S+")


def faults(notebook: NotebookNode) -> list[str]:
    """The faults of an executed notebook, a line each. All cells are counted, from 1."""
    return list(_faults(notebook))


def _faults(notebook: NotebookNode) -> Iterator[str]:
    expected = 0
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        where = f"cell {number}"
        tags = cell.metadata.get("tags", [])
        if not cell.source.strip():
            yield f"{where} is empty"
            continue
        expected += 1
        count = cell.get("execution_count")
        if count is None:
            yield f"{where} was not executed"
        elif count != expected:
            yield f"{where} was executed out of order: [{count}] where [{expected}] belongs"
        if any(tag in tags for tag in SKIPS) or SKIP_COMMENT.search(cell.source):
            yield f"{where} is marked to be skipped"
        for output in cell.get("outputs", []):
            if output.output_type == "error" and "raises-exception" not in tags:
                yield f"{where} shows an error: {output.ename}: {_line(output.evalue)}"
            conclusion = output.get("data", {}).get(CONCLUSION)
            if conclusion and not conclusion["held"]:
                yield f"{where} concludes what was not seen: {conclusion['sentence']}"
            place = PLACE.search(_text(output))
            if place:
                yield f"{where} shows a path of the machine it ran on: {place[0]}"
    size = len(json.dumps([cell.get("outputs", []) for cell in notebook.cells]))
    if size > LARGEST:
        yield f"outputs of {size / 1e6:.1f} MB, at most {LARGEST / 1e6:g} MB: draw fewer dots"


def _text(output: NotebookNode) -> str:
    """The visible text of an output."""
    parts = [output.get("text", ""), *output.get("traceback", []), output.get("evalue", "")]
    data = output.get("data", {})
    parts += [data[kind] for kind in ("text/plain", "text/html", "text/markdown") if kind in data]
    return "\n".join("".join(part) for part in parts)


def _line(text: str) -> str:
    return (text.splitlines() or [""])[0][:100]
