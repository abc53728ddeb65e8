"""How all nine lectures are written: where sentences, answers and imports stand."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from hpml.course import folded, schedule
from hpml.course.instructors import paired

COURSE = schedule.load()
LECTURES = [module.notebook.with_suffix(".py").name for module in COURSE.modules]
SHOWS = {"print", "publish", "publish_figure", "display", "launch", "skip"}
FIRST = 6  # lines


@pytest.fixture(params=LECTURES, ids=lambda name: Path(name).stem)
def cells(request) -> list[tuple[str, str]]:
    """The code cells of a lecture: the section that each stands in, and its Python."""
    return list(_code(COURSE.root / "notebooks" / request.param))


def _code(script: Path) -> Iterator[tuple[str, str]]:
    section = ""
    for cell in paired.read_script(script).cells:
        if cell.cell_type == "markdown":
            titles = [line for line in cell.source.splitlines() if line.startswith("## ")]
            section = titles[-1] if titles else section
        elif not cell.source.startswith("%%"):
            lines = ("" if line.startswith("%") else line for line in cell.source.splitlines())
            yield section, "\n".join(lines)


def _calls(code: str) -> list[tuple[str, ast.Call]]:
    calls = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    return [(getattr(c.func, "id", getattr(c.func, "attr", "")), c) for c in calls]


def test_the_first_cell_is_short(cells):
    assert len([line for line in cells[0][1].splitlines() if line]) <= FIRST


def test_a_sentence_that_is_concluded_stands_in_the_lecture(cells):
    for section, code in cells:
        for name, call in _calls(code):
            if name == "conclude":
                assert len(call.args) == 3, (section, ast.unparse(call))
                words = (node.value for node in ast.walk(call.args[1]) if _is_text(node))
                assert any(" " in word for word in words), (section, ast.unparse(call))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_a_cell_that_concludes_does_nothing_else(cells):
    """It is folded, and nothing that is to be read or seen is in it."""
    for section, code in cells:
        names = {name for name, _ in _calls(code)}
        if "conclude" in names:
            assert not names & SHOWS, (section, code)


def test_a_section_imports_in_one_place_and_its_own_code_in_one_line(cells):
    places: dict[str, set[int]] = {}
    for number, (section, code) in enumerate(cells):
        found = [n.module or "" for n in ast.parse(code).body if isinstance(n, ast.ImportFrom)]
        found = [name for name in found if name.startswith("hpml")]
        if found:
            places.setdefault(section, set()).add(number)
            assert sum(name.startswith("hpml.modules") for name in found) <= 1, (section, found)
            assert max(Counter(found).values()) == 1, (section, found)
    assert {section: at for section, at in places.items() if len(at) > 1} == {}


def committed() -> Iterator[tuple[str, nbformat.NotebookNode]]:
    for module in COURSE.modules:
        yield module.id, nbformat.read(COURSE.root / module.notebook, as_version=4)


def test_concluding_cells_are_folded_in_what_is_committed():
    for module, lecture in committed():
        for cell in lecture.cells:
            assert folded.is_folded(cell) == folded.concludes(cell), (module, cell.source)


def test_the_seconds_of_all_cells_are_known():
    """`./hpml course core` adds them up."""
    for module, lecture in committed():
        cells = {cell.id for cell in lecture.cells if cell.cell_type == "code"}
        assert cells == set(paired.seconds(lecture)), module
