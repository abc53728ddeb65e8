"""The core of each lecture, with the core exercises, fits its slot; and how that is added up."""

import re
import symtable
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from hpml.course import schedule
from hpml.course.instructors import build, core_path, paired
from hpml.course.schedule import Course, Exercise, Module
from hpml.publish import CONCLUSION

COURSE = schedule.load()


def code(name: str, *concluded: str):
    outputs = [
        new_output("display_data", {"text/markdown": text, CONCLUSION: {"held": True}})
        for text in concluded
    ]
    return new_code_cell("...", id=name, outputs=outputs)


def lecture(*cells: str, **seconds: float):
    """A lecture of Markdown texts and code cells, which are written as $name."""
    made = [code(text[1:]) if text.startswith("$") else new_markdown_cell(text) for text in cells]
    notebook = new_notebook(cells=made)
    paired.record_seconds(notebook, seconds)
    return notebook


def cores(notebook) -> dict[str, bool]:
    return {section.title: section.core for section in core_path.sections(notebook)}


@pytest.mark.parametrize("module", COURSE.modules, ids=lambda module: module.id)
def test_the_core_of_the_module_fits_its_slot(module: Module) -> None:
    path = core_path.of(COURSE, module)
    print(core_path.as_table([path]))
    assert path.words, f"{module.notebook} has no core"
    assert path.fits, core_path.as_table([path])


def names(cell: str) -> tuple[set[str], set[str]]:
    """The names that a code cell defines for the cells below it, and those that it uses."""
    code = re.sub("^%.*", "", cell, flags=re.MULTILINE)
    magic = cell.partition("\n")[0] if cell.startswith("%%ranks ") else ""
    brought_back = re.findall(r"--(?:out|evidence) (\S+)", magic)
    top = symtable.symtable(code, "cell", "exec")
    own = {
        each.get_name() for each in top.get_symbols() if each.is_assigned() or each.is_imported()
    }

    def used(table: symtable.SymbolTable) -> Iterator[str]:
        for each in table.get_symbols():
            if each.is_referenced() and (table is top or each.is_global()):
                yield each.get_name()
        for child in table.get_children():
            yield from used(child)

    return own.union(*(each.split(",") for each in brought_back)), set(used(top))


def left_out(notebook) -> list[str]:
    """The names that core cells use and that come from a section that is not core."""
    core, more, missed = set(), set(), []
    for section in core_path.sections(notebook):
        for piece in section.pieces:
            if notebook.cells[piece.index].cell_type != "code":
                continue
            defined, used = names(notebook.cells[piece.index].source)
            if section.core:
                missed += sorted((used & more) - core - defined)
            (core if section.core else more).update(defined)
    return missed


@pytest.mark.parametrize("module", COURSE.modules, ids=lambda module: module.id)
def test_the_cells_of_the_core_run_without_those_that_are_more(module: Module) -> None:
    assert left_out(core_path.lecture(COURSE, module)) == []


def test_a_core_cell_that_needs_one_that_is_more_is_found() -> None:
    cells = [
        new_markdown_cell("## First *(more)*"),
        new_code_cell("import os\nkept = 1\nlost = 2"),
        new_code_cell("%%ranks 2 --out sums\nsums = rank"),
        new_markdown_cell("## Second"),
        new_code_cell("kept = 3\ntry:\n    kept\nexcept OSError as lost:\n    lost"),
        new_code_cell("def path(kept):\n    return os.getcwd()\n\n[sums for kept in sums]"),
    ]
    assert left_out(new_notebook(cells=cells)) == ["os", "sums"]


def test_a_heading_marked_more_takes_its_subsections_with_it() -> None:
    notebook = lecture(
        "# A day\n\nHello.",
        "## 1. First",
        "### Deeper *(more)*",
        "### Core again",
        "## 2. Second *(more)*",
        "### Below it",
        "## What to take home",
    )
    assert cores(notebook) == {
        "A day": True,
        "1. First": True,
        "Deeper": False,
        "Core again": True,
        "2. Second": False,
        "Below it": False,
        "What to take home": True,
    }


def test_a_heading_in_the_middle_of_a_cell_begins_a_section_and_one_in_code_does_not() -> None:
    notebook = lecture("# A\n\nfive\n\n## B *(more)*\n\none two\n\n```\n## a comment\n```", "$cell")
    first, second = core_path.sections(notebook)
    assert (first.words, second.title, second.words) == (2, "B", 6)
    assert [piece.index for piece in first.pieces + second.pieces] == [0, 0, 1]


def test_words_are_what_is_read() -> None:
    text = "Two [linked words](https://a.b/c(d) <b>bold</b>, `code` – 3 <!-- not\nthis -->"
    assert core_path.count_words(text) == 6


def test_seconds_and_conclusions_count_where_their_cell_stands() -> None:
    notebook = lecture("## A", "$a", "$b", "## B *(more)*", "$c", a=90.04, c=60)
    notebook.cells[1].outputs = code("a", "one two three").outputs
    first, second = core_path.sections(notebook)
    assert (first.words, first.seconds, first.not_timed) == (4, 90.0, 1)
    assert (second.seconds, second.not_timed) == (60, 0)
    assert first.minutes == pytest.approx(4 / 150 + 1.5)


def test_code_figures_and_predictions_take_time() -> None:
    shown = new_code_cell(
        "import os\nfrom a import (\n    b,\n    c,\n)\n\n# why\nd = b(\n    c,  # what\n)\ne = 2",
        outputs=[
            new_output("display_data", {"image/png": "AA=="}),
            new_output("display_data", {"text/plain": "3"}),
        ],
    )
    folded = new_code_cell("a\nb\nc", metadata={"jupyter": {"source_hidden": True}})
    guess = new_markdown_cell("*Predict: how many? Or **none**?* And *not this*.")
    notebook = new_notebook(cells=[guess, shown, folded])
    paired.record_seconds(notebook, {cell.id: 0 for cell in (shown, folded)})
    (section,) = core_path.sections(notebook)
    assert (section.lines, section.figures, section.predictions) == (3, 1, 1)
    assert section.minutes == pytest.approx(8 / 150 + 3 / 20 + 20 / 60 + 45 / 60)


def path_of(notebook, minutes: int) -> core_path.CorePath:
    exercises = (Exercise("ring", 10, True, Path()), Exercise("tree", 40, False, Path()))
    module = Module("03", "rings", "Rings", "09:00", minutes, "?", exercises, ())
    return core_path.CorePath(module, core_path.sections(notebook))


def test_a_name_in_a_prediction_may_have_marks_of_its_own() -> None:
    text = "*Predict: how large is *b*, **now**? And *n*?* And *not this*."
    assert core_path.PREDICT.findall(text) == ["Predict: how large is *b*, **now**? And *n*?"]


def test_the_sum_is_of_reading_cells_and_core_exercises() -> None:
    notebook = lecture("word " * 300, "$a", "## More *(more)*", "word " * 9000, "$b", a=60, b=6000)
    path = path_of(notebook, 13)
    assert (path.reading, path.running, path.exercises, path.minutes) == (2, 1, 10, 13)
    assert path.fits
    assert not path_of(notebook, 12).fits
    table = core_path.as_table([path, path_of(notebook, 12)])
    assert table.splitlines()[1].split() == "03 300 2.0 1.0 0.0 10 13.0 13 fits".split()
    assert table.splitlines()[2].endswith("1.0 min too long")
    rows = core_path.of_sections(path).splitlines()[1:]
    assert [row.split()[:3] for row in rows[1:]] == [["160.0", "9002", "0"]]
    assert rows[1].endswith(" More *(more)*")


def test_cells_without_recorded_seconds_are_named() -> None:
    notebook = lecture("text", "$a", "$b", a=1)
    table = core_path.as_table([path_of(notebook, 13)])
    assert table.endswith("fits; without the time of 1 cells: run ./hpml build")


def test_build_records_the_seconds_of_a_lecture_and_of_nothing_else(course: Course) -> None:
    (module,) = course.modules
    notebook = core_path.lecture(course, module)
    seconds = paired.seconds(notebook)
    assert set(seconds) == {cell.id for cell in notebook.cells if cell.cell_type == "code"}
    assert all(value == round(value, 1) >= 0 for value in seconds.values())
    for path in (module.solution, module.exercise_notebook):
        assert "hpml" not in (course.root / path).read_text().rpartition('"metadata"')[2]


def test_other_seconds_are_no_difference_and_are_kept_with_the_outputs(course: Course) -> None:
    (module,) = course.modules
    notebook = core_path.lecture(course, module)
    ids = list(paired.seconds(notebook))
    paired.record_seconds(notebook, dict.fromkeys(ids, 7))
    (course.root / module.notebook).write_text(paired.text_of(notebook))
    assert build.check(course, course.modules) == []
    script = course.root / module.notebook.with_suffix(".py")
    script.write_text(script.read_text().replace("What goes round?", "What goes where?"))
    assert build.build(course, course.modules, keep_outputs=True) == []
    made = core_path.lecture(course, module)
    assert "What goes where?" in made.cells[0].source
    assert paired.seconds(made) == dict.fromkeys(ids, 7)
