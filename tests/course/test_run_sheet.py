"""The run sheet: the clock, the questions with their answers, what goes wrong, and no script."""

import base64
import io
import re
from html import unescape
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from hpml import cli
from hpml.checks import find
from hpml.course import schedule
from hpml.course.instructors import core_path, paired, questions, run_sheet
from hpml.course.schedule import Course
from hpml.publish import CONCLUSION

CATALOGUE = """
[first]
wrong = "adds <twice>"
hint = "twice"
old = "a"
new = "b"
[second]
wrong = "adds three times"
hint = "twice"
old = "a"
new = "c"
[third]
wrong = "another library"
hint = "a rule"
old = "a"
new = "d"
[fourth]
wrong = "adds nothing"
hint = "never"
old = "a"
new = "e"
"""
HINTS = {"ring": {"start": "Begin.", "twice": "Once is enough.", "never": "Add."}}


def picture() -> str:
    data = io.BytesIO()
    Image.new("RGB", (3000, 1500), "red").save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


def cell(name: str, *outputs):
    return new_code_cell("...", id=name, outputs=list(outputs))


def shown(**data: object):
    return new_output("display_data", {key.replace("_", "/"): value for key, value in data.items()})


def concluded(text: str):
    return new_output("display_data", {"text/markdown": text, CONCLUSION: {"held": True}})


CELLS = (
    new_markdown_cell("# Rings\n\nHello."),
    new_markdown_cell("## 1. Round\n\nWhy?\n\n*Predict: how many\n$x^2$ messages?*"),
    cell("a", new_output("stream", name="stdout", text="p = 4\n"), shown(image_png=picture())),
    cell("b", concluded("It took **3** messages.")),
    new_markdown_cell("Not the answer. `ring` is your exercise.\n\n*Predict: and with two?*"),
    cell("c", new_output("stream", name="stdout", text="x" * 200 + "\nline" * 30)),
    new_markdown_cell("### Below\n\nNobody knows."),
    new_markdown_cell("*Predict: what if?*"),
    cell("d"),
    new_markdown_cell("## 2. For the evening *(more)*\n\n*Predict: later?*"),
    cell("e", shown(image_png=picture())),
    new_markdown_cell("Later, <script>alert(1)</script>yes.\n\nAnd more."),
    new_markdown_cell("## What to take home\n\nOne. Two. Three."),
    new_markdown_cell("## Where to read on\n\nIn `ring`."),
)


@pytest.fixture
def lecture(course: Course) -> Course:
    """The small course with another lecture, a job script and a catalogue."""
    notebook = new_notebook(cells=list(CELLS))
    paired.record_seconds(notebook, {"a": 60, "b": 60, "c": 180, "d": 0.2, "e": 60})
    (course.root / course.modules[0].notebook).write_text(paired.text_of(notebook))
    (course.root / "slurm").mkdir(exist_ok=True)
    (course.root / "slurm/03_ring.slurm").write_text(
        "#!/bin/bash\n# Module 03. A ring of\n# two.\n#\n#     sbatch it\n\n"
        "#SBATCH --nodes=1      # one\n#SBATCH --ntasks-per-node=4\n#SBATCH --time=00:05:00\n"
    )
    catalogue = course.root / "tests/modules/m03_rings/checks/wrong_ring.toml"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_text(CATALOGUE)
    return schedule.load(course.root / "course.toml")


def asked(course: Course) -> list[questions.Question]:
    notebook = core_path.lecture(course, course.modules[0])
    return [q for s in core_path.sections(notebook) for q in questions.of(notebook, s)]


def test_a_question_has_the_conclusions_of_its_cells_or_the_paragraph_after_them(lecture):
    found = [(question.text, question.answer) for question in asked(lecture)]
    assert found == [
        ("Predict: how many $x^2$ messages?", ["It took **3** messages."]),
        ("Predict: and with two?", []),  # what comes next is below another heading
        ("Predict: what if?", []),
        ("Predict: later?", ["Later, <script>alert(1)</script>yes."]),
    ]


def test_the_clock_has_core_sections_and_the_exercise_after_the_one_that_names_it(lecture):
    sheet = run_sheet.sheet(lecture, lecture.modules[0], HINTS)
    assert [(entry.at, entry.title) for entry in sheet.clock] == [
        ("09:00", "Rings"),
        ("09:00", "1. Round"),
        ("09:07", "ring"),  # after five minutes of cells, two guesses and a figure
        ("09:17", "Below"),
        ("09:18", "What to take home"),
        ("09:18", "Where to read on"),
    ]
    assert sheet.more == ("2. For the evening",)


def test_an_exercise_that_no_section_names_comes_before_what_to_take_home(lecture):
    notebook = core_path.lecture(lecture, lecture.modules[0])
    notebook.cells[4].source = "Nothing."
    path = core_path.CorePath(lecture.modules[0], core_path.sections(notebook))
    assert [entry.title for entry in run_sheet.clock(path)][2:] == [
        "Below",
        "ring",
        "What to take home",
        "Where to read on",
    ]


def test_wrong_answers_are_the_first_that_need_other_words(lecture):
    assert run_sheet.mistakes(lecture, "ring", HINTS["ring"]) == (
        run_sheet.Mistake("adds <twice>", "Once is enough."),
        run_sheet.Mistake("adds nothing", "Add."),
    )


def test_a_job_is_what_its_script_says(lecture):
    (job,) = run_sheet.sheet(lecture, lecture.modules[0], HINTS).jobs
    assert job.what == "A ring of two."
    assert job.asks == "1 node, 4 ranks on each, at most 00:05:00"


def test_the_screen_is_a_small_picture_or_the_first_lines_that_were_printed(lecture):
    first, second, third, evening = run_sheet.sheet(lecture, lecture.modules[0], HINTS).asked
    data = base64.b64decode(first.picture.removeprefix("data:image/png;base64,"))
    assert Image.open(io.BytesIO(data)).size == (760, 380)
    assert (first.text, second.picture) == ("", "")
    assert second.text.splitlines() == ["x" * 87 + "…", *["line"] * 9, "…"]
    assert (third.picture, third.text) == ("", "")
    assert (evening.core, evening.picture) == (False, "")


def test_the_page_is_whole_and_runs_nothing(lecture):
    page = run_sheet.write(lecture, HINTS)
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "adds &lt;twice&gt;" in page
    assert "It took <strong>3</strong> messages." in page
    assert "<math" in page
    assert "is not here" not in page


def test_without_the_catalogue_the_page_says_so(lecture):
    (lecture.root / "tests/modules/m03_rings/checks/wrong_ring.toml").unlink()
    assert "The catalogue of wrong answers" in run_sheet.write(lecture, HINTS)


def test_the_command_writes_the_page_of_the_day(tmp_path: Path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["run-sheet", "--out", str(tmp_path / "new/sheet.html")])
    assert ended.value.code == 0
    page = unescape((tmp_path / "new/sheet.html").read_text())
    course = schedule.load()
    for module in course.modules:
        assert f"{module.id} {module.title} · {module.minutes} min" in page
    for exercise in course.core:
        (*_, first), *_ = [run_sheet.mistakes(course, exercise.id, find(exercise.id).hints)]
        assert first.say in page
    assert "06_one_node.slurm" in page


@pytest.mark.parametrize("module", schedule.load().modules, ids=lambda module: module.id)
def test_every_question_of_the_lecture_is_answered_in_print(module):
    notebook = core_path.lecture(schedule.load(), module)
    found = [q for s in core_path.sections(notebook) for q in questions.of(notebook, s)]
    assert found
    assert [question.text for question in found if not question.answer] == []
