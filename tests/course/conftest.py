"""A course of one module with two small exercises, built once and copied for each test."""

import shutil
from pathlib import Path

import pytest

from hpml.course import build, day, release

COURSE = """
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
jobs = []
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
from hpml.course.graded import CHECK


def load_ipython_extension(shell):
    def answer(line, cell):
        exec(compile(cell, line, "exec"), shell.user_ns)

    def check(exercise):
        assert shell.user_ns[exercise]([2, 3]) == {"ring": 5, "tree": 6}[exercise]
        print(exercise, "passed")

    shell.register_magic_function(answer, "cell")
    shell.user_ns["check"] = check
"""


def lay_out(root: Path) -> day.Day:
    for folder in ("notebooks", "solutions", "exercises"):
        (root / folder).mkdir()
    (root / "course.toml").write_text(COURSE)
    (root / "notebooks/03_rings.py").write_text(LECTURE)
    (root / "solutions/03_rings.py").write_text(SOLUTION)
    (root / "solutions/hpml_stand_in").mkdir()
    (root / "solutions/hpml_stand_in/__init__.py").write_text(STAND_IN)
    return day.load(root / "course.toml")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the miniature course after a build; not to be changed."""
    root = tmp_path_factory.mktemp("course") / "built"
    root.mkdir()
    course = lay_out(root)
    assert build.build(course, course.modules) == []
    return root


@pytest.fixture
def course(built: Path, tmp_path: Path) -> day.Day:
    """A built course of the test's own."""
    shutil.copytree(built, tmp_path / "course")
    return day.load(tmp_path / "course" / "course.toml")


@pytest.fixture
def unbuilt(tmp_path: Path) -> day.Day:
    """A course with nothing but its sources."""
    (tmp_path / "unbuilt").mkdir()
    return lay_out(tmp_path / "unbuilt")


@pytest.fixture(scope="session")
def made() -> dict[str, release.File]:
    """The files of a release of the course."""
    return release.files(day.load())


@pytest.fixture(scope="session")
def released(made, tmp_path_factory) -> Path:
    """A release's folder."""
    return release.write(made, tmp_path_factory.mktemp("release"))[0]
