"""Answers are found in notebooks and percent scripts, and nothing else is taken for one."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hpml import answer as answers
from hpml.errors import UserError

SCRIPT = '''\
# %% [markdown]
# # Rings
# %%answer is a magic

# %%
# %load_ext hpml
from hpml import check

# %% tags=["mine"]
# %%answer ring
import torch

# !echo hello
text = """
%% no cell
"""

# %%
check("ring")

# %%
# %%answer tree
def tree(): ...
'''

RING = '%%answer ring\nimport torch\n\n!echo hello\ntext = """\n%% no cell\n"""\n'


def notebook(path: Path, *sources: str) -> Path:
    cells = [new_markdown_cell("%%answer not_this"), *(new_code_cell(text) for text in sources)]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def script(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_script_gives_its_answers_as_a_notebook_would_have_them(tmp_path: Path) -> None:
    ring, tree = answers.read(script(tmp_path / "a.py", SCRIPT))
    assert (ring.exercise, ring.source) == ("ring", RING)
    assert tree.source == "%%answer tree\ndef tree(): ...\n"


def test_the_line_of_an_answer_in_its_script_is_known(tmp_path: Path) -> None:
    ring, tree = answers.read(script(tmp_path / "a.py", SCRIPT))
    lines = SCRIPT.splitlines()
    assert lines[ring.first_line - 1] == "# %%answer ring"
    assert lines[tree.first_line - 1] == "# %%answer tree"
    assert tree.where == "a.py, line 22"


def test_a_notebook_gives_code_cells_only(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", "x = 1", RING.rstrip("\n"), "\n\n%%answer tree \ny = 2")
    ring, tree = answers.read(path)
    assert (ring.source, ring.cell, ring.first_line) == (RING, 3, None)
    assert tree.source == "%%answer tree \ny = 2\n"
    assert ring.where == "a.ipynb, cell 3"


def test_one_exercise_can_be_picked_from_several_files(tmp_path: Path) -> None:
    first = notebook(tmp_path / "a.ipynb", "%%answer ring\nx = 1")
    second = script(tmp_path / "b.py", "# %%\n# %%answer tree\ny = 2\n")
    assert [a.exercise for a in answers.read_all([first, second])] == ["ring", "tree"]
    assert [a.file for a in answers.read_all([first, second], "tree")] == [second]


def test_a_plain_script_is_the_answer_it_is_said_to_be(tmp_path: Path) -> None:
    path = script(tmp_path / "mine.py", "x = 1\n\n\n# %% [markdown]\n# y\n")
    (answer,) = answers.read_all([path], "ring")
    assert answer.source == "%%answer ring\nx = 1\n\n\n# %% [markdown]\n# y\n"


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        (["%%answer ring", "%%answer ring"], "ring is there twice, in a.ipynb, cell 2 and .* 3"),
        (["%%answer"], "cell 2: '%%answer': expected %%answer and one exercise id"),
        (["%%answer ring tree"], "expected %%answer and one exercise id"),
        (["%%answers ring"], "'%%answers ring': expected %%answer and one"),
        (["import torch\n%%answer ring"], "%%answer ring must be the first line .* it is line 2"),
        (["x = 1"], "no cell starts with %%answer ID"),
    ],
)
def test_a_mistake_in_a_notebook_is_named(tmp_path: Path, sources: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says) as raised:
        answers.read_all([notebook(tmp_path / "a.ipynb", *sources)])
    assert "\n" not in str(raised.value)


def test_twice_in_one_script_and_in_two_files(tmp_path: Path) -> None:
    one = script(tmp_path / "a.py", "# %%\n# %%answer ring\n\n# %%\n# %%answer ring\n")
    with pytest.raises(UserError, match=r"in a.py, line 2 and in a.py, line 5"):
        answers.read(one)
    two = [script(tmp_path / f"{name}.py", "# %%\n# %%answer ring\n") for name in "bc"]
    with pytest.raises(UserError, match=r"in b.py, line 2 and in c.py, line 2"):
        answers.read_all(two)


def test_an_answer_in_a_markdown_cell_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("%%answer ring\nx = 1")]), path)
    for exercise in (None, "ring"):
        with pytest.raises(UserError, match=r"a.ipynb, cell 1: the answer is in a Markdown cell"):
            answers.read_all([path], exercise)
    with pytest.raises(UserError, match="no cell starts with %%answer tree"):
        answers.read_all([path], "tree")


def test_an_id_that_no_cell_has(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", "%%answer ring")
    with pytest.raises(UserError, match=r"a.ipynb: no cell starts with %%answer tree"):
        answers.read_all([path], "tree")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.ipynb", b"", "not a Jupyter notebook"),
        ("a.ipynb", b'{"cells": [', "not a Jupyter notebook"),
        ("a.ipynb", b"[1, 2]", "not a Jupyter notebook"),
        ("a.ipynb", b'{"nbformat": 4, "nbformat_minor": 5, "cells": [7]}', "not a Jupyter"),
        ("a.ipynb", b"\xff\xfe\x00", "not UTF-8"),
        ("a.txt", b"", "expected a notebook"),
        ("gone.py", None, "no such file"),
    ],
)
def test_a_file_that_is_no_notebook(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=says) as raised:
        answers.read(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_a_folder_is_no_notebook(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").mkdir()
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        answers.read(tmp_path / "a.ipynb")
