"""A study's sizes: which fit and which are predicted, the table, and what the log reports."""

import csv
from dataclasses import replace

import pytest

from hpml.bench.scaling_sizes import (
    COLUMNS,
    Size,
    conclusion,
    fitted_and_unseen,
    largest,
    lead,
    line,
    read_all,
    split,
    write,
    write_table,
)
from hpml.errors import UserError
from hpml.predict.collectives import Cost
from hpml.predict.model_layers import Layer, Model
from hpml.predict.scaling import Constants, Level, Network, Training, predict

LAYERS = (Layer("first", 1e6, 400_000, 0), Layer("last", 2e6, 4_000_000, 0))
WITHIN, ACROSS = (1e-5, 1e-10), (1e-4, 8e-9)  # 1 Gbit/s between nodes
TRUE = Training(
    Model("network", LAYERS),
    images_per_s=1000,
    batch=64,
    network=Network((Level(2, Cost(*WITHIN)), Level(None, Cost(*ACROSS)))),
    bucket_bytes=1e6,
)


def size(ranks, per_node=2, rate=0.7):
    """As a cluster would measure it that reaches `rate` of its network's nominal rate."""
    per_node = min(ranks, per_node)
    seconds = predict(TRUE, ranks, Constants(rate, 0.02)).step.seconds
    return Size(
        ranks=ranks,
        per_node=per_node,
        batch=64,
        alone=TRUE.compute,
        seconds=(seconds, 0.99 * seconds, 1.02 * seconds),
        within=WITHIN if per_node > 1 else None,
        across=ACROSS if ranks > per_node else None,
        bucket_bytes=1e6,
        layers=LAYERS,
    )


@pytest.mark.parametrize(
    ("ranks", "per_node", "fitted"),
    [
        ((2, 4, 8), 2, [2, 4]),
        ((1, 2, 4), 1, [2]),  # the largest is never fitted
        ((1, 2, 4, 8), 1, [2, 4]),
        ((2, 4), 2, [2]),
        ((4, 8, 16, 32), 4, [4, 8]),
        ((1, 2), 1, [2]),
        ((1,), 1, []),
    ],
)
def test_the_smallest_sizes_fit(ranks, per_node, fitted):
    fits, unseen = split([size(n, per_node) for n in ranks])
    assert [one.ranks for one in fits] == fitted
    assert [one.ranks for one in unseen] == [n for n in ranks if n > 1 and n not in fitted]


def test_large_sizes_are_predicted_from_small_ones():
    sizes = [size(n) for n in (2, 4, 8, 16)]
    fitted, unseen = fitted_and_unseen(sizes)
    assert [one.ranks for one in unseen] == [8, 16]
    for one in unseen:
        assert fitted.predict(one.ranks).images_per_s == pytest.approx(one.images_per_s, rel=0.05)
        assert one.images_per_s in fitted.interval(one.ranks)
    lines = conclusion(sizes, fitted, unseen)
    assert [text.split()[0] for text in lines] == ["8", "16", "32", "128"]
    assert "measured" in lines[1]
    assert "efficient" in lines[-1]


def test_the_largest_size_is_held_to_what_was_measured():
    fitted, unseen = fitted_and_unseen([size(n) for n in (2, 4, 8)])
    found = largest(fitted, unseen)
    assert found.held
    assert found.size == unseen[0]
    assert abs(found.off) < 0.05
    assert found.kept == pytest.approx(unseen[0].images_per_s / 8 / 1000)
    slow = replace(unseen[0], seconds=(3.0,))
    assert not largest(fitted, [slow]).held


def test_the_lead_names_the_points_and_the_error_on_either_side():
    fitted, unseen = fitted_and_unseen([size(n) for n in (2, 4, 8)])
    predicted = fitted.predict(8).images_per_s
    for measured, error in ((0.8, "25.0% too high"), (1.25, "20.0% too low"), (1.0, "right to")):
        seen = replace(unseen[0], seconds=(8 * 64 / (measured * predicted),))
        sentence = lead(fitted, [seen])
        assert "on 2 and 4 ranks" in sentence
        assert f"predicted {predicted:,.0f} images/s for 8 ranks" in sentence
        assert f"so it was {error}" in sentence


def test_one_rank_predicts_nothing_and_one_node_only_itself():
    assert fitted_and_unseen([size(1)]) == (None, [])
    assert "from the next size on" in conclusion([size(1)], None, [])[0]
    fitted, unseen = fitted_and_unseen([size(2)])
    assert "before two of them" in conclusion([size(2)], fitted, unseen)[-1]


def test_sizes_come_back_as_they_were_kept_the_smallest_first(tmp_path):
    sizes = [size(n) for n in (8, 2, 4)]
    for one in sizes:
        write(tmp_path / "study", one)
    assert read_all(tmp_path / "study") == sorted(sizes, key=lambda one: one.ranks)


def test_sizes_of_two_studies_are_refused(tmp_path):
    write(tmp_path, size(2))
    write(tmp_path, replace(size(4), batch=32))
    with pytest.raises(UserError, match="differ in batch"):
        read_all(tmp_path)


def test_what_is_no_size_is_one_line(tmp_path):
    (tmp_path / "2.json").write_text("{}")
    with pytest.raises(UserError, match=r"2\.json: not a size"):
        read_all(tmp_path)


def test_the_table_has_a_row_for_each_size_and_what_it_was_for(tmp_path):
    sizes = [size(n, per_node=1) for n in (1, 2, 4)]
    write_table(tmp_path / "scaling.csv", sizes, *fitted_and_unseen(sizes))
    with (tmp_path / "scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["ranks"], row["nodes"], row["use"]) for row in rows] == [
        ("1", "1", "alone"),
        ("2", "2", "fitted"),
        ("4", "4", "predicted"),
    ]
    for row in rows:
        low, one, high = (
            float(row[f"predicted_{name}"]) for name in ("low", "images_per_s", "high")
        )
        assert low < one < high
        least, middle, most = (float(row[f"{name}seconds"]) for name in ("least_", "", "most_"))
        assert least <= middle <= most
    write_table(tmp_path / "alone.csv", sizes[:1], None, [])
    assert (tmp_path / "alone.csv").read_text().strip().endswith("alone,,,")


def test_the_log_has_a_line_for_each_size():
    assert line(size(1)) == "1 rank on 1 node: 1000 images/s, 100% of what they do without sending"
    assert "(waiting in place of computing)" in line(replace(size(4), waited=True))
