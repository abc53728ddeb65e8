"""./hpml course core and conclusions: what a lecture takes, and what it concludes."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from hpml import cli
from hpml.course import schedule
from hpml.course.instructors import conclusions, paired
from hpml.course.schedule import Course
from hpml.publish import CONCLUSION


def cell(text: str, held: bool = True):
    data = {"text/markdown": text, CONCLUSION: {"held": held, "sentence": "The ring is faster."}}
    return new_code_cell("...", outputs=[new_output("display_data", data)])


@pytest.fixture
def concluding(course: Course, monkeypatch: pytest.MonkeyPatch):
    """Make the course's lecture one with these cells below two headings."""
    monkeypatch.setattr(schedule, "load", lambda: course)

    def with_cells(first, second) -> Course:
        cells = [new_markdown_cell("## A"), first, new_markdown_cell("## B *(more)*"), second]
        notebook = new_notebook(cells=cells)
        paired.record_seconds(notebook, {first.id: 60, second.id: 60})
        (course.root / course.modules[0].notebook).write_text(paired.text_of(notebook))
        return course

    return with_cells


def hpml(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return ended.value.code


def test_conclusions_are_listed_by_section_and_end_well_where_all_held(concluding, capsys):
    course = concluding(cell("The ring\nis faster."), cell("So is the tree."))
    first, second = conclusions.of(course, course.modules[0])
    assert (first.section, first.core, first.cell, first.held) == ("A", True, 2, True)
    assert (second.section, second.core, second.text) == ("B", False, "So is the tree.")
    assert hpml("course", "conclusions") == 0
    shown = capsys.readouterr().out
    assert "03  Rings: 2 conclusions" in shown
    assert "    A\n      ✓ cell 2: The ring is faster." in shown
    assert "    B (more)\n" in shown


def test_one_that_did_not_hold_is_marked_and_is_a_failure(concluding, capsys):
    concluding(cell("Not seen in this run: 3 s.", held=False), cell("So is the tree."))
    assert hpml("course", "conclusions", "03") == 1
    assert "✗ cell 2: Not seen in this run: 3 s." in capsys.readouterr().out


def test_core_prints_the_sum_and_fails_where_the_slot_is_too_short(concluding, capsys):
    concluding(cell("one"), cell("word " * 150 * 60))
    assert hpml("course", "core") == 0
    assert "fits" in capsys.readouterr().out
    concluding(cell("word " * 150 * 60), cell("one"))
    assert hpml("course", "core") == 1
    assert "min too long" in capsys.readouterr().out
