"""The published tables: every row has its source, and which rows fit is a rule, not a choice."""

import re
from dataclasses import fields, replace

import pytest

from hpml.errors import UserError
from hpml.predict.model_layers import MODELS
from hpml.predict.published_scaling import ALGORITHMS, SCALING, UNITS, Row, split, table, tables

ROWS = [row for rows in tables().values() for row in rows]
ROW = table("tf-ec2-distributed-resnet50-64")[0]


def test_every_row_has_a_source_and_where_in_it():
    for row in ROWS:
        assert str(row.year)[:2] == "20"
        assert len(row.source) > 10, row
        assert re.fullmatch(r".{6,}; https://\S+( \(.*\))?", row.where), row
        assert row.how.startswith(("printed", "read from a plot, ±")), row


def test_values_are_of_the_columns():
    for row in ROWS:
        assert row.unit in UNITS, row
        assert row.algorithm in ALGORITHMS, row
        assert row.scaling in SCALING, row
        assert row.value > 0 < row.ranks, row
        assert row.per_node > 0, row
        assert row.batch is None or row.batch > 0, row
        assert row.network_gbit is None or row.network_gbit > 0, row
        assert all((row.cluster, row.processor, row.model, row.method)), row


@pytest.mark.parametrize("name", tables())
def test_rows_of_a_table_differ_in_ranks_value_and_where_only(name):
    rows = table(name)
    ranks = [row.ranks for row in rows]
    assert ranks == sorted(set(ranks))
    same = [field.name for field in fields(Row) if field.name not in {"ranks", "value", "where"}]
    assert len({tuple(getattr(row, field) for field in same) for row in rows}) == 1


def test_every_image_model_has_layers_or_is_not_split_by_data():
    without = {row.model for row in ROWS} - set(MODELS)
    others = {"pipeline", "tensor"}
    assert {row.model for row in ROWS if row.algorithm not in others} - set(MODELS) == {"googlenet"}
    assert "resnet50" not in without


def test_figures_are_those_of_their_sources():
    assert [row.value for row in table("tf-dgx1-vgg16-64")] == [154, 295, 584, 1081]
    assert [row.value for row in table("gpipe-transformer-32")] == [1.8, 3.4, 6.3]
    assert {row.ranks: row.value for row in table("horovod-vgg16")} == {128: 0.79, 512: 0.68}
    assert {row.ranks: row.value for row in table("mxnet-ec2-alexnet")}[256] == 61938.36
    assert {row.ranks: row.value for row in table("bert-pytorch-a100-128-fp16")}[256] == 138294
    assert {row.ranks: row.value for row in table("mpt-125m")}[128] * 2048 == pytest.approx(
        15863837, rel=1e-5
    )
    assert {row.ranks for row in table("daint-resnet50-mpi")} == {2, 4, 8, 16, 32, 64, 128}


def test_an_unknown_table_is_named_with_all_others():
    with pytest.raises(UserError, match="no published table 'tf': there are tf-dgx1-inception"):
        table("tf")


@pytest.mark.parametrize("name", tables())
def test_the_smallest_sizes_fit_and_the_largest_never(name):
    rows = table(name)
    fitted, predicted = split(rows)
    assert (*fitted, *predicted) == rows
    assert predicted or len(rows) == 1


@pytest.mark.parametrize(
    ("per_node", "ranks", "fitted"),
    [
        (8, (1, 2, 4, 8), 3),  # one node: one rank, and two sizes for two constants
        (8, (1, 8, 16, 32, 64), 3),
        (4, (1, 2, 4, 8, 16, 32), 4),  # until the first size on two nodes
        (1, (1, 2, 4, 8), 3),
        (4, (8, 16, 32, 64), 2),  # no row of one rank
        (4, (1, 32), 1),
        (4, (1, 8, 32), 2),  # the largest is predicted although two constants want one row more
        (4, (512,), 1),
    ],
)
def test_a_split_has_what_two_constants_need(per_node, ranks, fitted):
    rows = [replace(ROW, per_node=per_node, ranks=one) for one in ranks]
    assert [len(part) for part in split(rows[::-1])] == [fitted, len(rows) - fitted]
    assert [row.ranks for part in split(rows[::-1]) for row in part] == list(ranks)
