"""`./hpml course new` writes what `./hpml course check` then calls red, thing by thing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpml.course import schedule
from hpml.course.instructors import build, new_exercise, where_next
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.paths import CHECKOUT


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a course by its path."""
    paths = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def test_what_the_real_course_then_lacks_is_a_row_each(tmp_path: Path) -> None:
    aside = shutil.ignore_patterns("__pycache__", "m0[56]_*")
    for folder in ("src", "solutions", "exercises", "tests/modules/m01_parallel_sgd/checks"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=aside)
    for name in ("course.toml", "jupytext.toml", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, tmp_path)

    def hpml(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from hpml.cli import main; main()", *words]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    made = hpml("course", "new", "1", "all_to_all")
    assert made.returncode == 0, made.stderr
    listed = (tmp_path / "course.toml").read_text()
    line = '    { id = "all_to_all", minutes = 10 },\n'
    assert listed.replace(line, "") == (CHECKOUT / "course.toml").read_text()
    assert schedule.load(tmp_path / "course.toml").module_of("all_to_all").id == "01"

    checked = hpml("course", "check", "all_to_all", "--json")
    assert checked.returncode == 1, checked.stderr
    file = "tests/modules/m01_parallel_sgd/checks/wrong_all_to_all.toml"
    assert [row["reason"] for row in json.loads(checked.stdout)["rows"]] == [
        "it has no claims",
        'it has no hint "start"',
        "hints: 1, expected at least 3",
        "its title is its id: say what is claimed",
        "m01_parallel_sgd/checks/_steps.py does not say how to go on",
        f"{file.rpartition('/checks/')[0]}/honest has no right answer in a style that few write",
        "it does not say what is to be written and what may be used: to_write, allowed",
        f"{file}: 0 wrong answers, expected at least 4",
        "its answer is still a stub: write it between BEGIN and END SOLUTION",
    ]

    again = hpml("course", "new", "1", "all_to_all")
    assert again.returncode == 2
    assert again.stderr == "hpml: exercise 'all_to_all' is there already, in module 01\n"


def test_the_other_cells_of_the_solutions_keep_their_outputs(course: Course) -> None:
    (module,) = course.modules
    new_exercise.create(course, module, "bush")
    changed = schedule.load(course.root / "course.toml")
    findings = [str(finding) for finding in build.check(changed, changed.modules)]
    of_solutions = [text for text in findings if text.startswith("solutions/")]
    assert all("not executed" in text for text in of_solutions)
    assert len(of_solutions) == 2  # the new answer and its check
    (of_lecture,) = set(findings) - set(of_solutions)  # whose last cell names the exercises
    assert "notebooks/03_rings.ipynb: not a pair with 03_rings.py" in of_lecture


def test_links_stay_at_the_end(course: Course) -> None:
    (module,) = course.modules
    script = course.root / "solutions/03_rings.py"
    links = f"{where_next.IN_SCRIPT}#\n# On.\n"
    script.write_text(f"{script.read_text()}\n{links}")
    new_exercise.create(course, module, "bush")
    assert script.read_text().endswith(f'check("bush")\n\n{links}')


def test_all_that_is_written_is_named(course: Course) -> None:
    (module,) = course.modules
    before = contents(course.root)
    written = new_exercise.create(course, module, "bush")
    after = contents(course.root)
    differ = {path for path in after if after[path] != before.get(path)}
    assert differ == {path.as_posix() for path in written}


@pytest.mark.parametrize(
    ("exercise", "says"),
    [
        ("ring", "exercise 'ring' is there already, in module 03"),
        ("Bush", "an id is lower_case_words"),
        ("class", "an id is lower_case_words"),
        ("left", "src/hpml/modules/m03_rings/checks/left.py is there already"),
    ],
)
def test_an_id_that_cannot_be_is_refused_and_nothing_written(
    course: Course, exercise: str, says: str
) -> None:
    (course.root / "src/hpml/modules/m03_rings/checks/left.py").touch()
    before = contents(course.root)
    with pytest.raises(UserError, match=says) as raised:
        new_exercise.create(course, course.modules[0], exercise)
    assert len(str(raised.value).splitlines()) == 1
    assert contents(course.root) == before


@pytest.mark.parametrize("damage", ["solutions/03_rings.ipynb", "solutions/03_rings.py"])
def test_nothing_is_left_behind_where_it_fails_half_way(course: Course, damage: str) -> None:
    (course.root / damage).unlink()
    before = contents(course.root)
    with pytest.raises(UserError):
        new_exercise.create(course, course.modules[0], "bush")
    assert contents(course.root) == before


def test_the_first_exercise_of_a_module_is_listed_too(course: Course) -> None:
    toml = course.root / "course.toml"
    text = toml.read_text()
    begin, end = text.index("exercises = ["), text.rindex("]")
    module = schedule.load(toml).modules[0]
    made = new_exercise._with_line(text[:begin] + "exercises = [" + text[end:], module, "bush")
    assert made.endswith('exercises = [\n    { id = "bush", minutes = 10 },\n]\n')
