"""Errors by how far a row is beyond the fitted sizes: the groups, the line, and what stands out."""

from dataclasses import replace

import pytest

from hpml.predict import by_factor
from hpml.predict.by_factor import Row, groups
from hpml.predict.published_predicted import predict_table, predicted

TABLE = predict_table("tf-ec2-distributed-resnet50-64")


def test_rows_are_grouped_by_factor_and_the_last_group_is_open():
    found = groups(
        [
            Row(1.4, 0.1, 0.2, 0.3, True),
            Row(2.0, 0.3, 0.2, 0.3, False),
            Row(4.0, 0.1, 0.2, 0.3, True),
            Row(8.0, 0.1, 0.2, 0.3, True),
            Row(64.0, 0.5, 0.2, 0.9, False),
        ]
    )
    assert [(group.factor, group.count, group.inside) for group in found] == [
        (2, 2, 0.5),
        (4, 1, 1.0),
        (8, 1, 1.0),
        (16, 1, 0.0),
    ]
    assert [group.ahead for group in found] == [False, True, True, False]
    shown = by_factor.as_table(found)
    assert shown.count("\n") == 4
    assert "over 8 ×" in shown.splitlines()[-1]


def test_a_row_has_its_factor_and_its_opponents():
    fitted = [row for row in TABLE.rows if row.fitted]
    most = max(row.row.ranks for row in fitted)
    for row, found in zip(TABLE.test, by_factor.rows([TABLE]), strict=True):
        assert found.factor == row.row.ranks / most
        assert found.model == abs(row.error)
        assert found.same_rate == pytest.approx(
            abs(row.row.ranks * fitted[-1].published / most / row.published - 1)
        )


def test_the_line_is_met_where_speeds_of_ranks_fall_by_as_much_with_each_doubling():
    def row(ranks, fitted):
        each = 100 - 5 * (ranks.bit_length() - 1)
        made = TABLE.rows[0]
        return replace(
            made, row=replace(made.row, ranks=ranks), published=ranks * each, fitted=fitted
        )

    rows = (row(1, True), row(4, True), row(8, True), row(64, False))
    (found,) = by_factor.rows([replace(TABLE, rows=rows)])
    assert found.line == pytest.approx(0, abs=1e-9)
    alone = (row(4, True), row(64, False))
    (found,) = by_factor.rows([replace(TABLE, rows=alone)])
    assert found.line == pytest.approx(90 / 70 - 1)


def test_far_rows_are_predicted_better_than_by_both_opponents_and_intervals_hold():
    found = groups(by_factor.rows(predicted()[0]))
    assert [group.factor for group in found] == [2, 4, 8, 16]
    assert all(group.count > 10 for group in found)
    assert all(group.ahead for group in found[1:])
    assert all(group.inside >= 0.88 for group in found[:3])
