"""The run sheet: the clock, the questions with their answers, what goes wrong, and no script."""

import base64
import io
import re
import subprocess
from html import unescape
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from hpml import cli
from hpml.checks import find
from hpml.course import schedule
from hpml.course.instructors import (
    cluster_steps,
    core_path,
    half_line,
    paired,
    questions,
    reservation,
    run_sheet,
)
from hpml.course.schedule import Course
from hpml.errors import UserError
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
STEPS = """
["03"]
after = "Below"
[["03".steps]]
minutes = 20
do = "Submit <it>."
type = "submit slurm/03_ring.slurm"
rehearse = "./hpml submit 03"
read = "Who waits?"
log = ["rank … is done"]
[["03".steps]]
minutes = 13
do = "Wait."
type = "squeue --me"
read = "R runs."
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
    assert [section.title for section in sheet.more] == ["2. For the evening"]


@pytest.fixture
def on_cluster(lecture: Course) -> Course:
    """The lecture with a part on the cluster, of 33 minutes."""
    file = lecture.root / cluster_steps.FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(STEPS)
    return lecture


def test_the_part_on_the_cluster_is_in_the_clock_after_its_section(on_cluster):
    sheet = run_sheet.sheet(on_cluster, on_cluster.modules[0], HINTS)
    clock = [(entry.at, entry.title, entry.minutes) for entry in sheet.clock[3:5]]
    assert clock == [
        ("09:17", "Below", pytest.approx(0.78, abs=0.02)),
        ("09:18", "The cluster", 33),
    ]
    assert sheet.clock[5].at == "09:51"
    assert sheet.minutes == sheet.path.minutes + 33
    assert sheet.spare == -6  # 51 minutes, of 45
    assert "6 min over" in run_sheet.write(on_cluster, HINTS)
    assert "6 min over" in run_sheet.write(on_cluster, HINTS, brief=True)


def test_a_part_on_the_cluster_after_no_core_section_is_refused(on_cluster):
    file = on_cluster.root / cluster_steps.FILE
    file.write_text(STEPS.replace("Below", "2. For the evening"))
    with pytest.raises(
        UserError, match=r"cluster_steps.toml: 03: after = '2. For.*1. Round, Below"
    ):
        run_sheet.write(on_cluster, HINTS)


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
    assert not re.search(r'(?:src="(?!data:)|href="(?!#))', page)
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
        assert first.say.replace("`", "") in re.sub(r"</?code>", "", page)
    assert "06_one_node.slurm" in page


@pytest.mark.parametrize("module", schedule.load().modules, ids=lambda module: module.id)
def test_every_question_of_the_lecture_is_answered_in_print(module):
    notebook = core_path.lecture(schedule.load(), module)
    found = [q for s in core_path.sections(notebook) for q in questions.of(notebook, s)]
    assert found
    assert [question.text for question in found if not question.answer] == []


def test_all_anchors_of_the_contents_are_there(on_cluster):
    page = run_sheet.write(on_cluster, HINTS)
    targets = re.findall(r'href="#([^"]+)"', page)
    assert {"day", "before", "reserve", "m03", "cluster03", "more03"} <= set(targets)
    assert set(targets) <= set(re.findall(r' id="([^"]+)"', page))


def test_sections_marked_more_are_in_an_appendix_behind_all_modules(lecture):
    before, appendix = run_sheet.write(lecture, HINTS).split(' id="more03"')
    assert "Predict: and with two?" in before
    assert "Predict: later?" not in before
    assert "2. For the evening" in appendix
    assert "Predict: later?" in appendix
    assert "And with two?" not in appendix


def test_in_brief_there_are_half_lines_and_the_first_mistake_and_no_picture(on_cluster):
    page = run_sheet.write(on_cluster, HINTS, brief=True)
    text = " ".join(re.sub(r"<style.*</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())
    assert "<script" not in page
    assert "<img" not in page
    assert re.search(r"How many .* messages\? → It took 3 messages\.", text)
    assert "And with two? → the lecture prints none" in text
    assert "Often: adds &lt;twice&gt;. Say: Once is enough." in text
    assert "adds nothing" not in text
    assert "Later?" not in text
    assert "20 min. Submit &lt;it&gt;. submit slurm/03_ring.slurm Who waits?" in text
    assert "In the log: rank … is done" in text
    assert "Without the cluster, the module takes 18 min." in text
    assert "./hpml watch exercises/03_rings.py ./hpml hint ring" in text


def test_several_answers_share_the_line_and_labelled_ones_stand_alone():
    long = "word " * 40
    assert run_sheet.short_answers([long]) == [half_line.half_line(long)]
    assert all(len(text) < 72 for text in run_sheet.short_answers([long, long]))
    assert run_sheet.short_answers(["What is seen.", "**Answer.** Three."]) == ["Three."]


def test_what_a_class_needs_of_a_cluster_grows_with_it(lecture):
    (three,) = reservation.plan(lecture, 3)
    assert (three.when, three.nodes, three.cores) == ("09:00 to 09:45", 3, 12)
    assert three.node_hours == pytest.approx(3 * 5 / 60)
    page = run_sheet.write(lecture, HINTS, learners=300)
    assert "For 300 learners" in page
    assert '<td class="number">300</td><td class="number">1,200</td>' in page


def test_in_brief_each_module_of_the_day_is_one_page(tmp_path, needs):
    chromium = needs("chromium")
    page, pdf = tmp_path / "sheet.html", tmp_path / "sheet.pdf"
    with pytest.raises(SystemExit):
        cli.main(["run-sheet", "--brief", "--out", str(page)])
    switches = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    words = [chromium, *switches, profile, f"--print-to-pdf={pdf}", page.as_uri()]
    subprocess.run(words, capture_output=True, timeout=120, check=True)
    pages = re.findall(rb"/Type /Page\b", pdf.read_bytes())
    assert len(pages) == 1 + len(schedule.load().modules)
