"""./hpml grade, as an instructor types it, in real sandboxes.

A class is graded by a process of its own, and what its end, its rights or its output depend on.
What else is asked of the command is asked in this process: to start it takes seconds each time.
"""

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest

from hpml.cli import main
from hpml.cli.instructors import grade_command
from hpml.course import schedule
from hpml.grading import sandbox
from hpml.grading.record import read_folder
from hpml.paths import CHECKOUT

COURSE = schedule.load()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), "COLUMNS": "160"}
RIGHT = CHECKOUT / COURSE.module("00").solution
STUB = CHECKOUT / COURSE.module("00").exercise_notebook


def grade(*words: object, timeout: float = 200) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "hpml", "grade", *map(str, words)],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def grade_here(*words: object) -> subprocess.CompletedProcess:
    """The same in this process, which has imported all it takes."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main(["grade", *map(str, words)])
    return subprocess.CompletedProcess(words, ended.value.code, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def _a_wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", ENVIRONMENT["COLUMNS"])


@pytest.fixture(scope="module")
def class_(tmp_path_factory) -> Path:
    """One is right, one did nothing, one has a file that is none, one misspelt a magic."""
    folder = tmp_path_factory.mktemp("class")
    shutil.copy(RIGHT, folder / "ada.ipynb")
    shutil.copy(STUB, folder / "bo.ipynb")
    (folder / "cy.ipynb").write_text("{")
    half = json.loads(RIGHT.read_text())
    for cell in half["cells"]:
        source = "".join(cell["source"])
        if source.startswith("%%answer hello_ranks"):
            cell["source"] = source.replace("%%answer", "%% answer")
        elif source.startswith("%%answer read_queue"):
            cell["source"] = source + "\nnumpy_is_imported_elsewhere\n"
    (folder / "di.ipynb").write_text(json.dumps(half))
    return folder


@pytest.fixture(scope="module")
def graded(sandboxed, class_, tmp_path_factory):
    out = tmp_path_factory.mktemp("grades") / "out"
    return out, grade(class_, "--out", out, "--jobs", 2)


def test_a_class_is_graded_and_everything_written(graded):
    out, told = graded
    assert told.returncode == 1, told.stderr
    assert "Left out: job_script" in told.stdout
    records = {record.person: record for record in read_folder(out / "records")}
    assert {p: r.earned for p, r in records.items()} == {"ada": 7, "bo": 0, "cy": 0, "di": 0}
    assert "not a Jupyter notebook" in records["cy"].refused
    statuses = {p: [result.status for result in r.results] for p, r in records.items()}
    assert statuses["bo"] == ["missing", "missing"]
    assert statuses["cy"] == ["refused", "refused"]
    assert statuses["di"] == ["not counted", "failed"]
    assert (out / "secret").stat().st_mode & 0o777 == 0o600
    key = (out / "secret").read_text().strip()
    kept = [path for path in out.rglob("*") if path.is_file() and path.name != "secret"]
    assert [path for path in kept if key.encode() in path.read_bytes()] == []
    for name in ("marks.csv", "index.html", "junit.xml", "gradebook.db", "feedback/ada.html"):
        assert (out / name).stat().st_size > 200, name
    assert (out / "gradescope/ada/results.json").exists()
    table = (out / "marks.csv").read_text()
    assert table.splitlines()[0].startswith("person,")
    marks = {row["person"]: row for row in csv.DictReader(table.splitlines())}
    assert (marks["cy"]["hello_ranks"], marks["cy"]["total"]) == ("refused", "refused")
    assert (marks["di"]["hello_ranks"], marks["di"]["total"]) == ("not counted", "not counted")
    assert {path.name for path in (out / "gradescope/di").iterdir()} == {"no_mark.txt"}
    page = (out / "feedback/di.html").read_text()
    assert "%% answer hello_ranks" in page
    assert "stands alone" in page
    for person in ("ada", "bo", "cy", "di"):
        assert person in told.stdout
        assert person in table
    assert "Most missed" in told.stdout
    assert "cy, di without a total: nbgrader alone counts what has no mark as 0" in told.stdout


def test_a_second_run_goes_on_and_grades_nobody_twice(graded, class_):
    out, _ = graded
    before = {path: path.stat().st_mtime_ns for path in (out / "records").iterdir()}
    again = grade_here(class_, "--out", out, "--resume")
    assert again.returncode == 1, again.stderr
    assert "4 of 4 were graded before and are kept" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (out / "records").iterdir()} == before


def test_who_is_graded_alone_later_is_in_the_tables_with_everybody(graded, class_, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(graded[0], out)
    shutil.copy(STUB, tmp_path / "late.ipynb")
    told = grade_here(tmp_path / "late.ipynb", "--only", "hello_ranks", "--out", out, "--resume")
    assert told.returncode == 1, told.stderr
    for name in ("marks.csv", "index.html", "junit.xml"):
        text = (out / name).read_text()
        assert [p for p in ("ada", "bo", "cy", "di", "late") if p not in text] == [], name
    assert {path.stem for path in (out / "feedback").iterdir()} >= {"ada", "late"}


def test_the_verdicts_of_a_record_again_show_the_instructor_what_was_expected(graded):
    out, _ = graded
    told = grade_here("--again", "di", "--only", "read_queue", "--out", out)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "In the record: failed, 0 of 5 points. Now: failed, 0 of 5 points." in told.stdout
    assert "numpy_is_imported_elsewhere" in told.stdout
    every = grade_here("--again", "di", "--out", out)
    assert every.returncode == 0, every.stdout + every.stderr
    assert "In the record: not counted. There is no answer to judge." in every.stdout
    assert "%% answer hello_ranks" in every.stdout
    for words, said in (
        (("--again", "zoe"), "no record of zoe is here: there are ada, bo, cy, di"),
        (("--again", "bo"), "bo: there is no answer to judge again: hello_ranks is missing"),
        (("--again", "cy"), "hello_ranks is refused: cy.ipynb is not a Jupyter notebook"),
        (("--again", "../grading"), "no record of ../grading is here"),
        (("--again", "di", "--only", "ddp"), "di.json: ddp was not graded"),
        (("--again", "di", "--only", "dpp"), "no exercise 'dpp' in course.toml"),
    ):
        refused = grade_here(*words, "--out", out)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


@pytest.mark.usefixtures("sandboxed")
def test_grading_is_finished_where_nobody_reads_its_output(class_, tmp_path):
    command = [sys.executable, "-m", "hpml", "grade", class_, "--out", tmp_path / "out"]
    reading, writing = os.pipe()
    os.close(reading)  # as `| head` does once it has its lines
    try:
        ended = subprocess.run(
            [*map(str, command), "--only", "hello_ranks"],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=200,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")  # not all answers pass
    for name in ("marks.csv", "index.html", "feedback/ada.html", "gradebook.db"):
        assert (tmp_path / "out" / name).exists(), name


def test_parts_on_several_nodes_are_merged(class_, tmp_path, graded):
    for part in ("1/2", "2/2"):
        told = grade_here(class_, "--out", tmp_path, "--part", part, "--jobs", 1)
        assert told.returncode == 0, told.stderr
        assert f"Then: ./hpml grade --merge --out {tmp_path}" in told.stdout
        assert not (tmp_path / "marks.csv").exists()
    merged = grade_here("--merge", "--out", tmp_path)
    assert merged.returncode == 1, merged.stderr
    assert (tmp_path / "marks.csv").read_text() == (graded[0] / "marks.csv").read_text()


@pytest.mark.usefixtures("sandboxed")
def test_one_record_as_json(class_):
    told = grade_here(class_ / "ada.ipynb", "--only", "hello_ranks", "--json", "-")
    assert told.returncode == 0, told.stderr
    record = json.loads(told.stdout)
    assert (record["person"], record["earned"], record["core"]) == ("ada", 2, False)
    assert "seed" not in told.stdout


@pytest.mark.usefixtures("sandboxed")
def test_core_exercises_alone_count_and_everything_says_so(class_, tmp_path):
    told = grade_here(class_ / "ada.ipynb", "--core", "--out", tmp_path)
    assert told.returncode == 0, told.stderr
    assert "2 of 2 points (core exercises only)." in told.stdout
    assert "read_queue" not in told.stdout
    (row,) = csv.DictReader((tmp_path / "marks.csv").read_text().splitlines())
    assert (row["total"], row["points"], row["note"]) == ("2", "2", "core exercises only")
    assert "(core exercises only)" in (tmp_path / "index.html").read_text()
    assert (
        "The core exercises count here, and no others."
        in (tmp_path / "feedback/ada.html").read_text()
    )
    marks = json.loads((tmp_path / "gradescope/ada/results.json").read_text())
    assert marks["output"].splitlines()[0] == "Core exercises only."
    assert '<property name="core" value="true"' in (tmp_path / "junit.xml").read_text()


ASLEEP = "hpml-asleep"  # what an answer's processes call themselves
SLEEPS = f"""%%answer hello_ranks
import ctypes, os, time
def hello(number):
    ctypes.CDLL(None).prctl(15, b"{ASLEEP}")
    if os.fork() == 0:
        os.setsid()
    time.sleep(1000)
"""


def names(processes: list[psutil.Process]) -> list[str]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(process.name())
    return found


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.measures
def test_a_grader_that_is_killed_leaves_no_process_and_loses_nothing(tmp_path):
    """Its worker, the sandbox, and an answer's ranks with what they started."""
    people = [tmp_path / f"more{number}.ipynb" for number in range(3)]
    for path in people:
        shutil.copy(RIGHT, path)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SLEEPS)]), people[1])
    out = tmp_path / "out"
    command = [sys.executable, "-m", "hpml", "grade", tmp_path, "--out", out, "--jobs", "1"]
    process = subprocess.Popen(
        list(map(str, command)), env=ENVIRONMENT, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        limit = time.monotonic() + 240
        family: list[psutil.Process] = []
        while not (list((out / "records").glob("*.json")) and names(family).count(ASLEEP) >= 2):
            assert time.monotonic() < limit, family
            time.sleep(0.05)
            family = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    # Less than the 20 s after which an answer is ended anyway
    gone, alive = psutil.wait_procs(family, timeout=12)
    assert len(gone) >= 6
    assert alive == []
    before = {path: path.stat().st_mtime_ns for path in (out / "records").glob("*.json")}
    assert 1 <= len(before) < 3
    shutil.copy(RIGHT, people[1])
    told = grade_here(*people, "--out", out, "--resume")
    assert told.returncode == 0, told.stdout + told.stderr
    assert len(read_folder(out / "records")) == 3
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no PATH: name a notebook, a folder or a zip of submissions"),
        (("nowhere",), "nowhere"),
        (("{class}", "--part", "3/2"), "--part 3/2: give K/N"),
        (("{class}", "--only", "dpp"), "no exercise 'dpp' in course.toml"),
        (("--merge", "--out", "{class}"), "no grading is here"),
        (("{class}", "--out", "{class}/ada.ipynb"), "cannot be written to"),
        (("{class}", "--json", "-"), "--json: 4 submissions there: give one"),
        (("{class}", "--again", "ada"), "--again cannot go with PATH: leave one out"),
        (("{class}", "--merge"), "--merge cannot go with PATH: leave one out"),
        (("--merge", "--again", "ada"), "--again cannot go with --merge: leave one out"),
        (("{class}", "--only", "amdahl", "--core"), "none of amdahl is on the core path"),
        (("--merge", "--core"), "--merge cannot go with --core: leave one out"),
        (("--merge", "--only", "ddp"), "--merge cannot go with --only: leave one out"),
        (("--again", "ada", "--resume"), "--again cannot go with --resume: leave one out"),
        (
            ("{class}", "--json", "-", "--resume", "--part", "1/1", "--out", "build/grades"),
            "--json cannot go with --out and --resume and --part: leave one out",
        ),
    ],
)
def test_bad_input_gets_one_line(class_, words, said):
    refused = grade_here(*(word.replace("{class}", str(class_)) for word in words))
    assert refused.returncode == 2
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.fixture
def no_programs(tmp_path, monkeypatch) -> Iterator[None]:
    """PATH is an empty folder, so that there is no bubblewrap."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    sandbox.missing.cache_clear()
    yield
    sandbox.missing.cache_clear()


@pytest.mark.usefixtures("no_programs")
def test_without_a_sandbox_grading_does_not_start_unless_told_to(class_, tmp_path):
    told = grade_here(class_, "--out", tmp_path / "out")
    assert told.returncode == 2
    assert "needs a sandbox: bwrap is not installed: apt install bubblewrap" in told.stderr
    assert not (tmp_path / "out").exists()
    words = [class_ / "ada.ipynb", "--only", "hello_ranks", "--unsafe", "--out", tmp_path / "out"]
    unsafe = grade_here(*words)
    assert unsafe.returncode == 0, unsafe.stderr
    assert "UNSAFE" in unsafe.stderr
    (record,) = read_folder(tmp_path / "out" / "records")
    assert (record.unsafe, record.layers) == (True, ())
    assert "sandbox" in (tmp_path / "out" / "feedback" / "ada.html").read_text()


@pytest.mark.usefixtures("sandboxed")
def test_an_ordinary_user_needs_no_rights_for_it(class_, tmp_path, needs):
    ordinary = [needs("unshare"), "--user", "--map-user=1000", "--map-group=1000"]
    command = [sys.executable, "-m", "hpml", "grade", class_ / "ada.ipynb", "--out", tmp_path / "o"]
    told = subprocess.run(
        [*ordinary, *map(str, command), "--only", "hello_ranks"],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert told.returncode == 0, told.stderr
    (record,) = read_folder(tmp_path / "o" / "records")
    assert (record.earned, record.unsafe) == (2, False)
    assert set(sandbox.REQUIRED) <= set(record.layers)


def test_in_a_log_there_is_a_line_a_minute(capsys):
    record = SimpleNamespace(person="ada", has_total=True, earned=1, points=2)
    with grade_command._Progress() as progress:
        progress.started(5, 0)
        for done, elapsed in enumerate((30.0, 61.0, 90.0, 125.0, 150.0), 1):
            progress.graded(record, done, 5, elapsed)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("graded ")]
    assert said[:2] == [
        "graded 2/5 2.0 per minute, 1:31 left",
        "graded 4/5 1.9 per minute, 0:31 left",
    ]
    assert len(said) == 3  # and, at the end, the bar
