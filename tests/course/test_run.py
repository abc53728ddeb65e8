"""Executing the day: what becomes of cells that work, fail, hang or take the kernel with them."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hpml.course import schedule
from hpml.course.execute import CellRun, NotebookRun, open_notebook
from hpml.course.run import CourseRun, DataUsed, plan, prepare, run_course
from hpml.errors import UserError

from ..waiting import gone

MODULE = """
[[module]]
id = "{id}"
name = "m{id}"
title = "Module {id}"
slot = "09:00"
minutes = 45
asks = "Why?"
exercises = []
"""


class Heard:
    """Records one line per event."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def started(self, run: NotebookRun, cell: CellRun, number: int) -> None:
        self.lines.append(f"{run.path.parent.name}/{run.path.name} {number} {cell.title}")

    def ended(self, run: NotebookRun, cell: CellRun, number: int) -> None:
        self.lines.append(f"{number} {cell.status}")


def make_course(root: Path, **notebooks: list[str | nbformat.NotebookNode]) -> schedule.Course:
    """A day of modules 01, 02, …; `lecture_01=[...]`, `solution_01=[...]` give code or cells."""
    ids = sorted({name.rpartition("_")[2] for name in notebooks})
    for kind, folder in (("lecture", "notebooks"), ("solution", "solutions")):
        (root / folder).mkdir(parents=True)
        for number in ids:
            cells = [
                new_code_cell(cell) if isinstance(cell, str) else cell
                for cell in notebooks.get(f"{kind}_{number}", ["pass"])
            ]
            nbformat.write(new_notebook(cells=cells), root / folder / f"{number}_m{number}.ipynb")
    modules = "".join(MODULE.format(id=number) for number in ids)
    (root / "course.toml").write_text(f'title = "A day"\nsubtitle = "short"\n{modules}')
    return schedule.load(root / "course.toml")


def execute_course(
    root: Path, names: tuple[str, ...] = (), **options: object
) -> tuple[CourseRun, Heard]:
    timeout = float(options.pop("cell_timeout", 60))
    run = plan(make_course(root, **options), names, DataUsed(root, "real images", False))
    heard = Heard()
    run_course(run, root / "out", heard, cell_timeout=timeout)
    return run, heard


def text_of(run: CourseRun, notebook: int, cell: int) -> str:
    """All that one cell of an executed notebook printed."""
    outputs = run.notebooks[notebook].notebook.cells[cell].outputs
    return "".join(output.get("text", "") for output in outputs)


def test_every_notebook_runs_in_order_in_its_own_kernel_folder_and_environment(tmp_path: Path):
    show = "import os, sys; print(os.getcwd(), os.environ['HPML_DATA'], sys.executable)"
    run, heard = execute_course(
        tmp_path, lecture_01=["x = 1", show], solution_01=["print('x' in globals())"]
    )
    assert [notebook.status for notebook in run.notebooks] == ["ran", "ran"]
    expected = f"{tmp_path / 'notebooks'} {tmp_path} {sys.executable}\n"
    assert text_of(run, 0, 1) == expected
    assert text_of(run, 1, 0) == "False\n"
    assert heard.lines == [
        "notebooks/01_m01.ipynb 1 x = 1",
        "1 ran",
        f"notebooks/01_m01.ipynb 2 {show[:43].rstrip()}…",
        "2 ran",
        "solutions/01_m01.ipynb 1 print('x' in globals())",
        "1 ran",
    ]


def test_committed_notebooks_stay_as_they_are_and_copies_carry_the_outputs(tmp_path: Path):
    run = plan(make_course(tmp_path, lecture_01=["1 + 1"]), (), DataUsed(tmp_path, "", False))
    original = tmp_path / "notebooks" / "01_m01.ipynb"
    before = original.read_bytes(), original.stat().st_mtime_ns
    run_course(run, tmp_path / "out", Heard())
    assert (original.read_bytes(), original.stat().st_mtime_ns) == before
    copy = nbformat.read(tmp_path / "out" / "notebooks" / "01_m01_lecture.ipynb", as_version=4)
    assert copy.cells[0].outputs[0]["data"]["text/plain"] == "2"


def test_the_learners_own_answers_and_progress_are_out_of_reach(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "mine"))
    run, _ = execute_course(
        tmp_path / "day", lecture_01=["import os; print(os.environ['HPML_HOME'])"]
    )
    assert text_of(run, 0, 0).strip() == str(tmp_path / "day" / "out" / "home")


def test_stale_outputs_do_not_survive_in_cells_that_are_not_run(tmp_path: Path):
    stale = new_code_cell("2", outputs=[nbformat.v4.new_output("stream", text="from last year")])
    run, _ = execute_course(tmp_path, lecture_01=["1 / 0", stale])
    assert run.notebooks[0].notebook.cells[1].outputs == []


def test_a_failing_cell_ends_its_notebook_and_no_other(tmp_path: Path):
    run, _ = execute_course(
        tmp_path, lecture_01=["1", "raise ValueError('no such\\nlayer')", "3"], lecture_02=["4"]
    )
    lecture = run.notebooks[0]
    assert [cell.status for cell in lecture.cells] == ["ran", "failed", "not run"]
    assert lecture.failed.error == "ValueError: no such layer"
    assert [notebook.status for notebook in run.notebooks] == ["failed", "ran", "ran", "ran"]


def test_an_error_that_a_cell_is_tagged_for_is_no_failure(tmp_path: Path):
    wanted = new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]})
    run, _ = execute_course(tmp_path, lecture_01=[wanted, "2"])
    assert [cell.status for cell in run.notebooks[0].cells] == ["ran", "ran"]


@pytest.mark.parametrize(
    ("death", "message"),
    [
        ("os._exit(3)", "the kernel died: it left with exit status 3"),
        ("os.kill(os.getpid(), 9)", "the kernel died: killed by SIGKILL (out of memory"),
    ],
)
def test_a_dead_kernel_is_noticed_and_named(tmp_path: Path, death: str, message: str):
    words = "import os; os.write(2, b'last words'); "
    run, _ = execute_course(tmp_path, lecture_01=[words + death, "2"], lecture_02=["3"])
    lecture = run.notebooks[0]
    assert lecture.failed.error.startswith(message)
    assert [cell.status for cell in lecture.cells] == ["failed", "not run"]
    assert lecture.notebook.cells[0].outputs[-1]["evalue"] == lecture.failed.error
    assert run.notebooks[2].status == "ran"


def test_what_a_dead_kernel_had_started_does_not_outlive_it(tmp_path: Path):
    start = "import os, subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    run, _ = execute_course(tmp_path, lecture_01=[start, "os._exit(3)"])
    assert run.notebooks[0].failed.error.startswith("the kernel died")
    assert gone(int(text_of(run, 0, 0)))


def test_a_hanging_cell_is_interrupted_and_shows_where_it_was(tmp_path: Path):
    hang = "import time\nwhile True:\n    time.sleep(0.1)"
    run, _ = execute_course(tmp_path, lecture_01=[hang, "2"], cell_timeout=2)
    lecture = run.notebooks[0]
    assert lecture.failed.error == "ran longer than 2 s and was stopped"
    trace = "\n".join(lecture.notebook.cells[0].outputs[-1]["traceback"])
    assert "KeyboardInterrupt" in trace
    assert "sleep" in trace


def test_a_cell_deaf_to_interrupts_is_ended_with_everything_it_started(tmp_path: Path):
    deaf = """
        import os, signal, subprocess, time
        child = subprocess.Popen(["sleep", "600"])
        print(os.getpid(), child.pid, flush=True)
        while True:
            try:
                time.sleep(600)
            except KeyboardInterrupt:
                pass
    """
    run, _ = execute_course(tmp_path, lecture_01=[textwrap.dedent(deaf)], cell_timeout=2)
    lecture = run.notebooks[0]
    assert lecture.failed.error.endswith("it did not react to an interrupt")
    assert all(gone(int(pid)) for pid in text_of(run, 0, 0).split())


def test_ctrl_c_keeps_what_was_done_and_leaves_no_kernel(tmp_path: Path):
    script = tmp_path / "interrupted.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from tests.course.test_run import DataUsed, Heard, make_course, plan, run_course

        class Loud(Heard):
            def started(self, run, cell, number):
                print("started", number, flush=True)

        root = Path({str(tmp_path / "day")!r})
        cells = ["import os; print(os.getpid())", "import time; time.sleep(600)", "3"]
        run = plan(make_course(root, lecture_01=cells), (), DataUsed(root, "", False))
        run_course(run, root / "out", Loud())
        print(run.interrupted, [c.status for c in run.notebooks[0].cells])
        print([notebook.status for notebook in run.notebooks])
        print("kernel", run.notebooks[0].notebook.cells[0].outputs[0]["text"])
        """)
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "started 1\n"
        assert process.stdout.readline() == "started 2\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    lines = output.splitlines()
    assert lines[0] == "True ['ran', 'not run', 'not run']"
    assert lines[1] == "['interrupted', 'not run']"
    assert gone(int(lines[2].split()[1]))


def test_titles_are_headings_magics_or_first_lines(tmp_path: Path):
    cells = [
        new_markdown_cell("# Data\n```\n# not a heading\n```\n## The `ring` #\ntext"),
        new_code_cell("x = 1"),
        new_code_cell("# why it waits\nx = 2"),
        new_markdown_cell("## Exercise"),
        new_code_cell("%%answer ddp\nimport torch"),
        new_code_cell("   "),
    ]
    path = tmp_path / "n.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    titles = [(cell.index, cell.title) for cell in open_notebook(path).cells]
    assert titles == [(1, "The ring"), (2, "why it waits"), (4, "%%answer ddp")]


def test_only_the_modules_asked_for_are_run(tmp_path: Path):
    run, _ = execute_course(tmp_path, ("2",), lecture_01=["1"], lecture_02=["2"])
    assert [module.module.id for module in run.modules] == ["02"]


def test_a_missing_or_broken_notebook_is_said_before_anything_runs(tmp_path: Path):
    course = make_course(tmp_path, lecture_01=["1"])
    data = DataUsed(tmp_path, "", False)
    (tmp_path / "solutions" / "01_m01.ipynb").write_text("{ not json")
    with pytest.raises(UserError, match=r"solutions/01_m01\.ipynb is not a notebook"):
        plan(course, (), data)
    (tmp_path / "solutions" / "01_m01.ipynb").unlink()
    with pytest.raises(UserError, match=r"solutions/01_m01\.ipynb is missing"):
        plan(course, (), data)


def test_the_output_folder_is_cleared_only_where_a_report_was(tmp_path: Path):
    out = tmp_path / "out"
    prepare(out)
    (out / "home").mkdir()
    (out / "old.html").touch()
    prepare(out)
    assert not (out / "home").exists()
    assert not (out / "old.html").exists()
    theirs = tmp_path / "theirs"
    (theirs / "home" / "person").mkdir(parents=True)
    with pytest.raises(UserError, match="has files in it but no report"):
        prepare(theirs)
    assert (theirs / "home" / "person").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file"):
        prepare(tmp_path / "file")


def test_an_output_folder_that_cannot_be_written_is_said():
    with pytest.raises(UserError, match="name a folder that can be written to"):
        prepare(Path("/proc/self/report"))
