"""Published tables as efficiencies, whatever their unit; as Markdown, with every source."""

from dataclasses import replace

import pytest

from hpml.predict.published_scaling import table, tables
from hpml.predict.published_table import efficiencies, overview, sources

ROW = table("tf-dgx1-resnet50-64")[0]


@pytest.mark.parametrize(
    ("unit", "scaling", "values", "expected"),
    [
        ("images/s", "weak", (100, 180), 0.9),
        ("s/step", "weak", (0.09, 0.10), 0.9),  # each rank has a batch of its own
        ("s/step", "strong", (0.18, 0.10), 0.9),  # one batch, cut in two
        ("s/epoch", "weak", (180, 100), 0.9),
        ("normalised", "strong", (1.0, 1.8), 0.9),
        ("efficiency", "weak", (1.0, 0.9), 0.9),
    ],
)
def test_efficiency_is_what_is_left_of_a_rank(unit, scaling, values, expected):
    rows = [
        replace(ROW, unit=unit, scaling=scaling, ranks=ranks, value=value)
        for ranks, value in zip((1, 2), values, strict=True)
    ]
    assert efficiencies(rows) == ((1, 1.0), (2, pytest.approx(expected)))


def test_a_published_efficiency_has_its_own_base():
    assert efficiencies(table("horovod-vgg16")) == ((128, 0.79), (512, 0.68))


def test_the_markdown_table_has_a_row_each():
    lines = overview().splitlines()
    assert len(lines) == 2 + len(tables())
    assert len({line.count("|") for line in lines}) == 1
    one = overview([table("tf-dgx1-vgg16-64")]).splitlines()[-1]
    assert "| – | a ring all-reduce | 1 to 8 | 88% |" in one


def test_every_source_is_named_once_with_its_links():
    text = sources()
    for rows in tables().values():
        for row in rows:
            assert text.count(f"**{row.source}**") == 1
            (line,) = [line for line in text.splitlines() if f"**{row.source}**" in line]
            assert row.where.rpartition("; ")[2] in line
            assert row.how in line
