"""course.toml: what is read from it, and what is said where it is wrong."""

from pathlib import Path

import pytest

from hpml.course import day
from hpml.errors import UserError
from hpml.paths import CHECKOUT

ONE_MODULE = """
title = "A day"
subtitle = "short"
[[module]]
id = "03"
name = "rings"
title = "Rings"
slot = "09:00"
asks = "Why?"
notebook = "notebooks/03_rings.ipynb"
solution = "solutions/03_rings.ipynb"
exercise_notebook = "exercises/03_rings.ipynb"
exercises = [{ id = "ring", points = 4 }, { id = "tree", points = 3 }]
jobs = ["slurm/03_ring.slurm"]
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "course.toml"
    path.write_text(ONE_MODULE)
    return path


def test_the_day_is_read_as_written(toml: Path) -> None:
    course = day.load(toml)
    (module,) = course.modules
    assert (course.title, course.root) == ("A day", toml.parent)
    assert module.notebook == Path("notebooks/03_rings.ipynb")
    assert module.exercises == (day.Exercise("ring", 4), day.Exercise("tree", 3))
    assert (module.points, course.points) == (7, 7)
    assert module.jobs == (Path("slurm/03_ring.slurm"),)


@pytest.mark.parametrize("name", ["3", "03", "rings", "03_rings", " 3 "])
def test_a_module_goes_by_number_or_name(toml: Path, name: str) -> None:
    assert day.load(toml).module(name).name == "rings"


def test_an_unknown_module_is_answered_with_those_there_are(toml: Path) -> None:
    with pytest.raises(UserError, match=r"no module '7'.*03 \(rings\)"):
        day.load(toml).module("7")


def test_no_selection_means_every_module_in_order() -> None:
    course = day.load()
    assert course.select([]) == course.modules
    last, first = course.modules[-1], course.modules[0]
    assert course.select([last.id, first.name]) == (first, last)


def test_an_exercise_knows_its_module(toml: Path) -> None:
    course = day.load(toml)
    assert course.module_of("tree").id == "03"
    assert course.exercise("tree").points == 3
    with pytest.raises(UserError, match="no exercise 'bush'"):
        course.module_of("bush")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "A day"', "title = 3", "title is 3, expected a string"),
        ('subtitle = "short"', "", "subtitle is missing"),
        ('id = "03"', 'id = "3"', "module 1 .rings.: id is '3', expected two digits"),
        ('name = "rings"', 'name = "Rings!"', "lower_case_words"),
        ('asks = "Why?"', "", "asks is missing"),
        ('asks = "Why?"', 'aks = "Why?"\nasks = "Why?"', "unknown key 'aks'"),
        ("solutions/03_rings.ipynb", "solutions/03_rings.py", "solution is .*expected a .ipynb"),
        ("notebooks/03_rings.ipynb", "../03_rings.ipynb", "path inside the checkout"),
        ("slurm/03_ring.slurm", "/etc/passwd", "jobs has '/etc/passwd'"),
        ("points = 3", "points = 0", "exercise tree: points = 0"),
        ("points = 3", "points = true", "exercise tree: points = True"),
        ("points = 3", 'points = "3"', "points is '3', expected a whole number"),
        ('id = "tree"', 'id = "ring"', "exercise id 'ring' is there twice"),
        ("[[module]]", "[module]", "module is .*expected a list"),
        ("[[module]]", "[[module]", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_in_one_line(toml: Path, old: str, new: str, says: str) -> None:
    toml.write_text(ONE_MODULE.replace(old, new))
    with pytest.raises(UserError, match=says) as raised:
        day.load(toml)
    assert str(raised.value).startswith("course.toml: ")
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"course.toml is missing"):
        day.load(tmp_path / "course.toml")


def test_the_jobs_of_the_real_day_are_numbered_like_their_modules() -> None:
    for module in day.load(CHECKOUT / "course.toml").modules:
        paths = (module.notebook, module.solution, module.exercise_notebook, *module.jobs)
        assert all(path.name.startswith(f"{module.id}_") for path in paths)
