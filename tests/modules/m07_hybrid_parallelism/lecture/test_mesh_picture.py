"""Collectives of a mesh belong to its dimensions."""

from types import SimpleNamespace

from hpml.modules.m07_hybrid_parallelism.lecture.mesh_picture import (
    dimension_of,
    draw,
    groups_of,
)
from hpml.ranks.evidence import Call
from hpml.trace.kinds_picture import kinds_picture

MESH = [[0, 2], [1, 3]]


def _call(index, group):
    return Call(index, "all_reduce", group, index, "float32", (10,), 40_000, "sum", None, 0.0)


def test_a_row_is_a_group_of_the_second_dimension():
    groups = groups_of(MESH, ("data", "tensor"))
    assert groups == {"data": [[0, 1], [2, 3]], "tensor": [[0, 2], [1, 3]]}
    assert dimension_of(_call(1, (1, 3)), groups) == "tensor"
    assert dimension_of(_call(1, (2, 3)), groups) == "data"
    assert dimension_of(_call(1, (0, 1, 2, 3)), groups) is None


def test_each_call_is_a_box():
    groups = groups_of(MESH, ("data", "tensor"))
    ranks = [
        SimpleNamespace(
            rank=r,
            calls=(
                _call(1, tuple(next(g for g in groups["tensor"] if r in g))),
                _call(2, tuple(next(g for g in groups["data"] if r in g))),
                _call(3, (0, 1, 2, 3)),
            ),
        )
        for r in range(4)
    ]
    evidence = SimpleNamespace(world_size=4, ranks=ranks)
    (axes,) = draw({"a mesh": (evidence, groups)}, per_node=2).axes
    assert len(axes.patches) == 4 * 2
    assert {text.get_text() for text in axes.texts} == {"0.04"}


def test_kinds_are_stacked_and_the_formula_is_a_line():
    measured = {"whole": {"parameters": 2e6, "gradients": 1e6}, "sharded": {"parameters": 1e6}}
    (axes,) = kinds_picture(measured, {"whole": 3e6}).axes
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert ends == [2, 3, 1, 1]
    assert [list(line.get_xdata()) for line in axes.lines] == [[3, 3]]
