"""Cells are those that jupytext and nbformat find."""

import contextlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import jupytext
import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.answer import NotCounted, cells, of_cell
from hpml.paths import CHECKOUT

NOTEBOOKS = sorted(path.name for path in (CHECKOUT / "solutions").glob("*.ipynb"))


def cells_by_the_libraries(path: Path) -> list[tuple[int, str]]:
    if path.suffix == ".ipynb":
        notebook = nbformat.reads(path.read_text(), as_version=4)
    else:
        notebook = jupytext.reads(path.read_text(), fmt="py:percent")
    found = enumerate(notebook.cells, 1)
    return [(number, cell.source) for number, cell in found if cell.cell_type == "code"]


def answers_in(path: Path, found: Iterable[tuple[int, str]]) -> list[tuple[str, str]]:
    answers = []
    for number, source in found:
        with contextlib.suppress(NotCounted):
            answers.append(of_cell(path, number, source))
    return [(answer.exercise, answer.source) for answer in answers if answer]


def answers_of(path: Path) -> list[tuple[str, str]]:
    data = path.read_bytes()
    found = cells.of_notebook(data) if path.suffix == ".ipynb" else cells.of_script(data)
    return answers_in(path, ((cell.number, cell.source) for cell in found if cell.kind == "code"))


@pytest.mark.parametrize("folder", ["solutions", "exercises", "notebooks"])
@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.parametrize("ending", [".ipynb", ".py"])
def test_the_courses_answers_are_those_that_the_libraries_find(folder, name, ending):
    path = (CHECKOUT / folder / name).with_suffix(ending)
    expected = answers_in(path, cells_by_the_libraries(path))
    assert answers_of(path) == expected
    assert bool(expected) == (folder != "notebooks")


LINES = st.sampled_from(
    r"""
# %%
# %% [markdown]
# %% a title
# %% tags=["x"]
#%%
  # %%
# %%%

# text
# !echo hello
# %time x = 1
x = '''
'''
y = "#"
    return 1
# # %%
# ls
!ls
%%time
x = !ls
"it's"
# what?
""".splitlines()
)


@given(st.lists(st.tuples(st.lists(LINES, max_size=6), st.booleans()), min_size=1, max_size=4))
def test_a_script_is_cut_as_jupytext_cuts_it(tmp_path_factory, parts):
    text = "import torch\n"
    for number, (lines, code) in enumerate(parts):
        text += "\n# %%" + (" [markdown]" if not code else "") + f"\n# %%answer a{number}\n"
        text += "\n".join(lines) + "\n"
    path = tmp_path_factory.mktemp("script") / "a.py"
    path.write_text(text)
    found = answers_in(path, cells_by_the_libraries(path))
    expected = [(exercise, source.rstrip()) for exercise, source in found]
    assert [(exercise, source.rstrip()) for exercise, source in answers_of(path)] == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def read_or_refused(read: Callable[[bytes], Iterable[cells.Cell]], data: bytes) -> list[str]:
    try:
        return [cell.source for cell in read(data)]
    except cells.Unreadable as refused:
        return [str(refused)]


@given(
    st.dictionaries(st.sampled_from(["nbformat", "cells", "metadata"]), json_values)
    | st.lists(
        st.dictionaries(
            st.sampled_from(["cell_type", "source"]),
            json_values | st.sampled_from(["code", "markdown"]),
        )
    ).map(lambda found: {"nbformat": 4, "cells": found})
)
def test_whatever_json_there_is_it_is_read_or_refused(value):
    said = read_or_refused(cells.of_notebook, json.dumps(value).encode())
    assert all(isinstance(text, str) for text in said)


@given(st.binary(max_size=300))
def test_whatever_bytes_there_are_they_are_read_or_refused(data):
    (said,) = read_or_refused(cells.of_notebook, data)
    assert said.startswith(("is ", "has "))
    assert all(isinstance(text, str) for text in read_or_refused(cells.of_script, data))
