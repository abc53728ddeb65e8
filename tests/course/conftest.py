"""A course of one module with two small exercises, built once and copied for each test."""

import shutil
from pathlib import Path

import pytest

from hpml.course import schedule
from hpml.course.instructors import build, release

# A module's exercises are to be added.
DAY = """
title = "A day"
subtitle = "short"
[[module]]
id = "03"
name = "rings"
title = "Rings"
slot = "09:00"
minutes = 45
asks = "Why?"
"""
COURSE = f"""{DAY}
exercises = [{{ id = "ring", minutes = 10, core = true }}, {{ id = "tree", minutes = 10 }}]
"""

LECTURE = """\
# %% [markdown]
# # Rings
#
# What goes round?

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(2, 1))
axes.plot([0, 1])
plt.show()

# %%
6 * 7

# %% tags=["nbval-ignore-output"]
import os

os.getpid()
"""

# The magic and the check of this file stand in for hpml's, so that a build takes a second.
SOLUTION = """\
# %% [markdown]
# # Rings: exercises

# %%
# %load_ext hpml_stand_in
check = get_ipython().user_ns["check"]

# %% [markdown]
# ## `ring`

# %%
# %%answer ring
def ring(values: list[int]) -> int:
    ### BEGIN SOLUTION
    total = sum(values)
    return total
    ### END SOLUTION

# %%
check("ring")

# %% [markdown]
# ## `tree`

# %%
# %%answer tree
import math


def tree(values: list[int]) -> int:
    start = 1
    ### BEGIN SOLUTION
    return math.prod(values, start=start)
    ### END SOLUTION

# %%
check("tree")

# %%
print("try it:", [ring([1, 2]), tree([2, 3])])
"""

STAND_IN = """\
from hpml.course.instructors.graded import CHECK


def load_ipython_extension(shell):
    def answer(line, cell):
        exec(compile(cell, line, "exec"), shell.user_ns)

    def check(exercise):
        assert shell.user_ns[exercise]([2, 3]) == {"ring": 5, "tree": 6}[exercise]
        print(exercise, "passed")

    shell.register_magic_function(answer, "cell")
    shell.user_ns["check"] = check
"""


def write_checks(root: Path, **points: int) -> None:
    """Files to read from what the exercises are worth: a check is not needed for more here."""
    folder = root / "src/hpml/modules/m03_rings/checks"
    folder.mkdir(parents=True)
    for exercise, worth in points.items():
        (folder / f"{exercise}.py").write_text(f'Claim("it holds", {worth}, None)\n')


def lay_out(root: Path) -> schedule.Course:
    for folder in ("notebooks", "solutions", "exercises"):
        (root / folder).mkdir()
    (root / "course.toml").write_text(COURSE)
    write_checks(root, ring=4, tree=3)
    (root / "notebooks/03_rings.py").write_text(LECTURE)
    (root / "solutions/03_rings.py").write_text(SOLUTION)
    (root / "solutions/hpml_stand_in").mkdir()
    (root / "solutions/hpml_stand_in/__init__.py").write_text(STAND_IN)
    return schedule.load(root / "course.toml")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the miniature course after a build; not to be changed."""
    root = tmp_path_factory.mktemp("course") / "built"
    root.mkdir()
    course = lay_out(root)
    assert build.build(course, course.modules) == []
    return root


@pytest.fixture
def course(built: Path, tmp_path: Path) -> schedule.Course:
    """A built course of the test's own."""
    shutil.copytree(built, tmp_path / "course")
    return schedule.load(tmp_path / "course" / "course.toml")


@pytest.fixture
def unbuilt(tmp_path: Path) -> schedule.Course:
    """A course with nothing but its sources."""
    (tmp_path / "unbuilt").mkdir()
    return lay_out(tmp_path / "unbuilt")


@pytest.fixture(scope="session")
def made() -> dict[str, release.File]:
    """The files of a release of the course."""
    return release.files(schedule.load())


@pytest.fixture(scope="session")
def released(made, tmp_path_factory) -> Path:
    """A release's folder."""
    return release.write(made, tmp_path_factory.mktemp("release"))[0]
