"""`jupytext --sync` takes a script's answers into its notebook, and nothing out of it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpml.paths import CHECKOUT

STUB = "    # YOUR CODE HERE\n    raise NotImplementedError()\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The exercises with jupytext's settings, scripts newer than notebooks, as git writes them."""
    shutil.copytree(CHECKOUT / "exercises", tmp_path / "exercises")
    shutil.copy(CHECKOUT / "jupytext.toml", tmp_path)
    for path in (tmp_path / "exercises").iterdir():
        newer = 1 if path.suffix == ".py" else 0
        os.utime(path, (1e9 + newer, 1e9 + newer))
    return tmp_path


def sync(notebooks: list[Path]) -> None:
    command = [sys.executable, "-m", "jupytext", "--sync", *map(str, notebooks)]
    done = subprocess.run(command, cwd=notebooks[0].parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_untouched_copy_is_left_as_it_is(copy: Path) -> None:
    notebooks = sorted(copy.glob("exercises/*.ipynb"))
    assert len(notebooks) == 9
    sync(notebooks)
    for path in sorted(copy.glob("exercises/*")):
        assert path.read_bytes() == (CHECKOUT / "exercises" / path.name).read_bytes(), path.name


def test_an_answer_reaches_the_notebook_and_nbgrader_still_knows_its_cells(copy: Path) -> None:
    notebook = copy / "exercises/00_your_machine.ipynb"
    before = json.loads(notebook.read_text())
    script = notebook.with_suffix(".py")
    script.write_text(script.read_text().replace(STUB, "    return 'mine'\n"))
    sync([notebook])
    after = json.loads(notebook.read_text())
    assert "    return 'mine'" in str(after)
    for old, new in zip(before["cells"], after["cells"], strict=True):
        assert old | {"source": new["source"]} == new
    assert after["metadata"] == before["metadata"]
