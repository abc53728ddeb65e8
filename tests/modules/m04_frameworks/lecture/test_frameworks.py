"""The table of frameworks: sources, years, what it says of itself; its picture; where ideas run."""

from dataclasses import replace

import jupytext
import pytest

from hpml.modules.m04_frameworks.lecture import framework_ideas, frameworks
from hpml.modules.m04_frameworks.lecture.framework_ideas import anchor, ideas, without_idea
from hpml.modules.m04_frameworks.lecture.frameworks import (
    KINDS,
    MADE,
    SPLITS,
    more_than_data,
    still_developed,
)
from hpml.modules.m04_frameworks.lecture.frameworks_picture import timeline_picture
from hpml.paths import CHECKOUT

TABLE = frameworks.frameworks()
NAMES = [one.name for one in TABLE]
OF_THE_SLIDES = """Caffe NVCaffe Intel-Caffe Caffe2 S-Caffe CNTK Chainer ChainerMN MXNet Theano neon
BigDL LBANN DSSTNE DL4J TensorFlow Keras PyTorch Lightning MaTEx Horovod""".split()
TODAYS = ["JAX", "DeepSpeed", "Megatron-LM", "Colossal-AI", "Ray Train", "Accelerate"]


def test_every_row_has_a_source_and_where_it_was_looked_up():
    for one in TABLE:
        assert len(one.source) > 10, one.name
        assert len(one.read_at) > 10, one.name
        assert f"**{one.name}**: {one.source}" in frameworks.sources()


def test_frameworks_of_the_original_slides_stand_beside_todays():
    assert sorted(NAMES) == sorted(OF_THE_SLIDES + TODAYS)


def test_years_kinds_and_names_are_of_the_table():
    for one in TABLE:
        assert 2008 < one.first <= (one.until or MADE) <= MADE, one.name
        assert one.kind in KINDS, one.name
        assert set(one.splits) <= set(SPLITS), one.name
        assert bool(one.splits) == bool(one.over), one.name
        assert bool(one.on) == (one.kind == "added"), one.name
        assert {*one.on, one.into} <= {*NAMES, ""}, one.name
        assert one.fate, one.name
        assert one.developed == one.fate.endswith("is its latest"), one.name
        assert not (one.developed and one.into), one.name


def test_order_is_by_kind_then_by_year():
    keys = [(list(KINDS).index(one.kind), one.first) for one in TABLE]
    assert keys == sorted(keys)


def test_the_markdown_table_has_a_row_each():
    lines = frameworks.table().splitlines()
    assert len(lines) == 2 + len(TABLE)
    assert len({line.count("|") for line in lines}) == 1
    theano = next(line for line in lines if "**Theano** (Python)" in line)
    assert "| 2009–2017 | – |" in theano


def test_fewer_than_half_are_developed_and_all_added_ones_are_for_pytorch():
    found = still_developed(TABLE)
    assert found.held
    assert found.left == sum(one.developed for one in TABLE)
    assert found.own == ["TensorFlow", "PyTorch", "JAX"]
    assert found.elsewhere  # Keras, Ray Train

    assert not still_developed([replace(one, until=None) for one in TABLE]).held
    elsewhere = still_developed(
        [replace(one, on=("TensorFlow",)) if one.name == "DeepSpeed" else one for one in TABLE]
    )
    assert (elsewhere.held, elsewhere.for_pytorch, elsewhere.added) == (False, 6, 7)


def test_developed_ones_split_more_than_data_more_often():
    assert more_than_data(TABLE) == (True, 9, 10, 3, 17)
    every_way = [replace(one, splits=SPLITS) for one in TABLE]
    assert more_than_data(every_way) == (False, 10, 10, 17, 17)


def test_the_picture_has_a_bar_for_each_from_first_to_last():
    figure = timeline_picture(TABLE, title="which are left")
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == NAMES
    bars = [box for box in axes.patches if box.get_width()]
    assert [bar.get_x() for bar in bars] == [one.first for one in TABLE]
    assert [bool(bar.get_hatch()) for bar in bars] == [not one.developed for one in TABLE]
    texts = [text.get_text() for text in axes.texts]
    assert texts[NAMES.index("Caffe2")] == "data over Gloo, NCCL  → PyTorch"
    assert texts[NAMES.index("Theano")] == "not distributed"
    assert axes.get_xlabel() == "year"


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("7. Two levels *(more)*", "7.-Two-levels-(more)"),
        ("9. `tf.data` done right *(more)*", "9.-tf.data-done-right-(more)"),
    ],
)
def test_an_anchor_is_the_text_with_hyphens(heading, expected):
    assert anchor(heading) == expected


@pytest.mark.parametrize("idea", ideas(), ids=lambda one: one.idea)
def test_an_idea_runs_in_a_section_that_exists(idea):
    notebook = jupytext.read(CHECKOUT / "notebooks" / f"{idea.notebook}.py")
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    lines = [line for text in texts for line in text.splitlines()]
    headings = {line.lstrip("#").strip() for line in lines if line.startswith("#")}
    assert idea.heading in headings
    assert set(idea.frameworks) <= set(NAMES)


def test_ideas_are_linked_from_the_notebook_that_shows_them():
    table = framework_ideas.table(ideas(), "04_frameworks").splitlines()
    assert len(table) == 2 + len(ideas())
    assert any("[05, section 7](05_horovod.ipynb#7.-Two-levels-(more))" in row for row in table)
    assert any("[04, section 6](#6.-Where-communication-gets-in)" in row for row in table)


def test_no_framework_is_gone_without_an_idea():
    assert without_idea(ideas(), TABLE) == []
    others = [one for one in ideas() if "Theano" not in one.frameworks]
    assert without_idea(others, TABLE) == ["Theano"]
