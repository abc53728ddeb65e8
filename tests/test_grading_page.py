"""docs/grading.md: its commands run, in their order, on a class of two."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import mistune
import pytest

from hpml.checks import find
from hpml.course import schedule
from hpml.course.instructors.release import files
from hpml.paths import CHECKOUT

TEXT = (CHECKOUT / "docs" / "grading.md").read_text(encoding="utf-8")
COURSE = schedule.load()
FAILED_ONE = "./hpml grade submissions"  # a class in which not everybody is right: exit code 1


def commands() -> list[str]:
    """Each command of the page's code blocks, without its comment."""
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.M | re.S)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def class_(tmp_path_factory) -> Path:
    """The folder that the page's commands are typed in, with two who handed in module 00."""
    folder = tmp_path_factory.mktemp("class")
    (folder / "hpml").symlink_to(CHECKOUT / "hpml")
    (folder / "submissions").mkdir()
    for person, notebook in (("ada", "solution"), ("bo", "exercise_notebook")):
        source = CHECKOUT / getattr(COURSE.module("00"), notebook)
        shutil.copy(source, folder / "submissions" / f"{person}.ipynb")
    return folder


def test_the_page_has_every_step():
    said = " ".join(commands())
    for step in (
        "release",
        "submissions --out",
        "--resume",
        "--again",
        "--json -",
        "--merge",
        "sbatch",
    ):
        assert step in said, step


def test_the_page_is_markdown_that_renders():
    page = mistune.create_markdown(plugins=["table"])(TEXT)
    prose = [line for line in TEXT.splitlines() if not line.startswith("|")]
    assert [line for line in prose if len(line) > 100] == []
    assert page.count("<table>") == len(re.findall(r"^\|[-|]+\|$", TEXT, re.M))
    assert re.findall(r"<p>\|.*", page) == []  # a table that is none
    assert re.findall(r"<li><p>.*", page) == []  # a list with a stray blank line


@pytest.mark.usefixtures("sandboxed")
def test_the_commands_do_what_the_page_says(class_):
    """But for sbatch, which takes a cluster, and --merge, which comes after it."""
    for command in commands():
        if command.startswith("sbatch") or "--merge" in command:
            continue
        # A small exercise, where the page names one that takes longer.
        words = [word.replace("ddp", "hello_ranks") for word in shlex.split(command)]
        words[0] = str(CHECKOUT / "hpml")
        ended = subprocess.run(
            words,
            cwd=class_,
            env={**os.environ, "HPML_HOME": str(class_ / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        whole_class = command.startswith(FAILED_ONE) and "ada" not in command
        assert ended.returncode == (1 if whole_class else 0), command + ended.stdout + ended.stderr
    assert (class_ / "build/release/hpml.zip").is_file()
    assert (class_ / "build/grades/feedback/ada.html").is_file()
    assert (class_ / "build/grades/secret").is_file()


def test_what_a_release_has_of_each_exercise_is_said_and_no_answer_can_import_it():
    released = files(COURSE)
    found = re.findall(r"^\| `(\w+)` \| (.*) \|$", TEXT, re.M)
    rows = dict(found)
    assert len(rows) == len(found)  # one row for each
    exercises = [exercise.id for module in COURSE.modules for exercise in module.exercises]
    assert [exercise for exercise in exercises if exercise not in rows] == []
    for exercise in exercises:
        named = re.findall(r"`([\w/]+\.(?:py|slurm))`", rows[exercise])
        assert named or rows[exercise].startswith("nothing: ")
        for name in named:
            path = name if name.startswith("slurm/") else f"src/hpml/{name}"
            assert path in released, name
            module = f"hpml.{name.removesuffix('.py').replace('/', '.')}"
            assert not find(exercise).rules.may_import(module), (exercise, name)


def test_every_file_and_command_of_the_page_is_there():
    for name in ("src/hpml/grading/record.schema.json", "slurm/grade_array.slurm", "tests/attacks"):
        assert name in TEXT
        assert (CHECKOUT / name).exists(), name
    for file in ("marks.csv", "index.html", "junit.xml", "gradebook.db", "results.json"):
        assert file in TEXT
