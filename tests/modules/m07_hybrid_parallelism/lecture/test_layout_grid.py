"""What a grid of chosen layouts says is counted in it."""

from itertools import product

import pytest

from hpml.modules.m07_hybrid_parallelism.lecture.layout_grid import Cell, cell, picture, rules
from hpml.predict.which_split import Cluster, Layout, Transformer


def chosen(data=1, pipeline=1, tensor=1, stage=0):
    return Layout(data, pipeline, tensor, stage, 1, 1.0, 2.0, 1.0)


GRID = {
    ("small", 8, 400): Cell(chosen(8), True),
    ("small", 8, 25): Cell(chosen(4, 2), True),
    ("large", 8, 400): Cell(chosen(4, 1, 2, stage=3), False),
    ("large", 8, 25): Cell(chosen(4, 1, 2, stage=1), False),
    ("huge", 8, 400): Cell(None, False),
    ("huge", 8, 25): Cell(None, False),
}


def test_rules_are_counted():
    found = rules(GRID)
    assert found.held
    assert (found.alone, found.could) == (1, 2)
    assert (found.changes, found.rows) == (["small on 8"], 2)
    assert (found.stage_3, found.tensor) == (400, 2)


def test_a_row_with_fewer_stages_on_slower_links_does_not_hold():
    assert not rules(GRID | {("large", 8, 400): Cell(chosen(4, 2, stage=3), False)}).held


@pytest.mark.parametrize(("memory", "alone"), [(80e9, True), (0.5e9, False)])
def test_a_cell_knows_whether_data_parallelism_alone_fits(memory, alone):
    model = Transformer(layers=8, width=1024, tokens=2**13, sequence=1024)
    one = cell(model, Cluster(8, 4, memory, 1e14, 450e9, 50e9))
    assert one.alone == alone
    assert one.chosen is not None
    assert cell(model, Cluster(8, 4, 1e6, 1e14, 450e9, 50e9)) == Cell(None, False)


def test_every_cell_is_in_the_picture():
    (axes,) = picture(GRID, title="which").axes
    said = [text.get_text() for text in axes.texts]
    assert len(said) == len(GRID)
    assert said.count("–") == 2
    assert "4 × p 2\n50% waiting" in said
    assert "4 × t 2, ZeRO-3\n50% waiting" in said
    assert len(axes.patches) == len(list(product(range(3), range(2))))
