"""course.toml: what is read from it, and what is said where it is wrong."""

from pathlib import Path

import pytest

from hpml.checks import find
from hpml.course import schedule
from hpml.errors import UserError

from .conftest import COURSE

ONE_MODULE = COURSE.replace('"ring", minutes = 10', '"ring", minutes = 20')


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "course.toml"
    path.write_text(ONE_MODULE)
    checks = tmp_path / "src/hpml/modules/m03_rings/checks"
    checks.mkdir(parents=True)
    (checks / "ring.py").write_text('CHECK = Check(claims=(Claim("a", 3, f), Claim("b", 1, g)))\n')
    (checks / "tree.py").write_text('claims = [Claim("c", judge=f, points=3)]\n')
    (tmp_path / "slurm").mkdir()
    for name in ("03_ring_gpu", "03_ring", "04_mesh"):
        (tmp_path / f"slurm/{name}.slurm").touch()
    return path


def test_the_course_is_read_as_written(toml: Path) -> None:
    course = schedule.load(toml)
    (module,) = course.modules
    assert (course.title, course.root) == ("A day", toml.parent)
    assert (module.slot, module.minutes) == ("09:00", 45)
    assert [(e.id, e.minutes, e.core) for e in module.exercises] == [
        ("ring", 20, True),
        ("tree", 10, False),
    ]
    assert course.core == module.core == module.exercises[:1]


def test_files_and_points_of_a_module_are_found_by_its_name(toml: Path) -> None:
    course = schedule.load(toml)
    (module,) = course.modules
    assert module.notebook == Path("notebooks/03_rings.ipynb")
    assert module.solution == Path("solutions/03_rings.ipynb")
    assert module.exercise_notebook == Path("exercises/03_rings.ipynb")
    assert module.jobs == (Path("slurm/03_ring.slurm"), Path("slurm/03_ring_gpu.slurm"))
    assert [exercise.points for exercise in module.exercises] == [4, 3]
    assert (module.points, course.points) == (7, 7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file or directory: an exercise needs its check"),
        ("Claim(", "not valid Python"),
        ("\nClaim('a', FULL, f)", "tree.py, line 2: a claim's points must be a whole number"),
        ("Claim('a', True, f)", "a claim's points must be a whole number"),
        ("Claim('a')", "a claim's points must be a whole number"),
    ],
)
def test_points_that_cannot_be_read_are_named(toml: Path, text: str | None, says: str) -> None:
    check = toml.parent / "src/hpml/modules/m03_rings/checks/tree.py"
    check.unlink()
    if text is not None:
        check.write_text(text)
    with pytest.raises(UserError, match=says) as raised:
        schedule.load(toml).exercise("tree").points  # noqa: B018
    assert len(str(raised.value).splitlines()) == 1


def test_points_of_the_real_course_are_those_of_its_checks() -> None:
    for module in schedule.load().modules:
        for exercise in module.exercises:
            assert exercise.points == find(exercise.id).points


@pytest.mark.parametrize("name", ["3", "03", "rings", "03_rings", " 3 "])
def test_a_module_goes_by_number_or_name(toml: Path, name: str) -> None:
    assert schedule.load(toml).module(name).name == "rings"


def test_an_unknown_module_is_answered_with_those_there_are(toml: Path) -> None:
    with pytest.raises(UserError, match=r"no module '7'.*03 \(rings\)"):
        schedule.load(toml).module("7")


def test_no_selection_means_every_module_in_order() -> None:
    course = schedule.load()
    assert course.select([]) == course.modules
    last, first = course.modules[-1], course.modules[0]
    assert course.select([last.id, first.name]) == (first, last)


def test_one_module_may_lead_the_report(toml: Path) -> None:
    assert schedule.load(toml).leading is None
    second = ONE_MODULE.split("[[module]]")[1].replace("03", "04").replace("ring", "mesh")
    second = second.replace("tree", "bush").replace('asks = "Why?"', 'asks = ""\nleads = "First"')
    toml.write_text(f"{ONE_MODULE}[[module]]{second}")
    course = schedule.load(toml)
    assert course.leading is course.modules[1]
    assert course.leading.leads == "First"
    first = ONE_MODULE.replace('asks = "Why?"', 'asks = ""\nleads = "No, first"')
    toml.write_text(f"{first}[[module]]{second}")
    with pytest.raises(UserError, match="modules 03 and 04 lead the report"):
        schedule.load(toml)


def test_an_exercise_knows_its_module(toml: Path) -> None:
    course = schedule.load(toml)
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
        ('asks = "Why?"', 'asks = "Why?"\njobs = []', "unknown key 'jobs'"),
        ("minutes = 45", "", "module 1 .rings.: minutes is missing"),
        ("minutes = 45", "minutes = 0", "module 1 .rings.: minutes = 0"),
        ("minutes = 45", "minutes = true", "module 1 .rings.: minutes = True"),
        ("minutes = 10", "minutes = 0", "exercise tree: minutes = 0"),
        ("minutes = 10", "minutes = true", "exercise tree: minutes = True"),
        ("minutes = 10", 'minutes = "3"', "minutes is '3', expected a whole number"),
        (", minutes = 10", "", "exercise tree: minutes is missing"),
        ("minutes = 10", "minutes = 10, core = 1", "exercise tree: core is 1, expected true or f"),
        ("minutes = 10", "minutes = 10, points = 3", "exercise tree: unknown key 'points'"),
        ('id = "tree"', 'id = "ring"', "exercise id 'ring' is there twice"),
        ('asks = "Why?"', 'asks = "Why?"\nleads = 1', "leads is 1, expected a string"),
        ("[[module]]", "[module]", "module is .*expected a list"),
        ("[[module]]", "[[module]", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_in_one_line(toml: Path, old: str, new: str, says: str) -> None:
    toml.write_text(ONE_MODULE.replace(old, new))
    with pytest.raises(UserError, match=says) as raised:
        schedule.load(toml)
    assert str(raised.value).startswith("course.toml: ")
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"course.toml is missing"):
        schedule.load(tmp_path / "course.toml")
