"""./hpml bench fusion, for real but short: one slow link, one round."""

import dataclasses

import pytest

from hpml.bench import fusion
from hpml.errors import UserError
from hpml.ranks import flavour

WHY = flavour.missing("horovod")
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))


def test_fusion_needs_fewer_collectives_for_the_same_bytes(monkeypatch):
    monkeypatch.setattr(fusion, "STEPS", 3)
    table = fusion.bench(rounds=1, rates=["100mbit"], report=lambda line: None)
    row = {row.name: row for row in table.rows}
    link = "100 Mbit/s"
    collectives = [row[f"{link}, {case.name}: collectives"].values[0] for case in fusion.CASES]
    assert collectives[0] == fusion.TENSORS
    assert 1 <= collectives[1] < fusion.TENSORS / 4
    assert collectives[2] == 1
    megabytes = 4 * fusion.TENSORS * fusion.LENGTH / 1e6
    for case in fusion.CASES:
        # Two ranks send as much as they have; negotiation, which goes on for as long, comes on top.
        assert megabytes < row[f"{link}, {case.name}: sent"].values[0]
    off, on = row[f"{link}, fusion off: a step"], row[f"{link}, fusion on: a step"]
    assert table.ratios(on) == [on.values[0] / off.values[0]]
    assert table.ratios(off) == []


def test_the_quickest_step_comes_with_its_part_of_the_timeline(monkeypatch, tmp_path):
    monkeypatch.setattr(fusion, "STEPS", 3)
    case = fusion.Case("twenty", 20, 10, tuple(fusion.OFF.items()))
    measured, timeline = fusion.quickest_step(case, "100mbit", tmp_path / "timeline.json")
    assert measured.collectives == 20
    names = [o.tensor for o in timeline.operations if o.kind == "ALLREDUCE"]
    assert sorted(names) == sorted(f"allreduce.gradient {number}" for number in range(20))
    assert measured.sent_bytes > 20 * 40
    assert measured.seconds > 0


def test_a_comparison_has_every_case_over_every_link(monkeypatch, tmp_path):
    monkeypatch.setattr(fusion, "STEPS", 2)
    monkeypatch.setattr(fusion, "RATES", ("100mbit",))
    compared = fusion.compare(tmp_path)
    assert compared.messages("100mbit", fusion.SMALL_OFF) == fusion.TENSORS
    assert compared.messages("100mbit", fusion.LARGE) == 1
    assert compared.ratios(fusion.LARGE, fusion.LARGE) == {"100mbit": 1}
    assert [line[:22].split() for line in str(compared).splitlines()] == [
        ["100", "Mbit/s", *case.name.split()] for case in fusion.CASES
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "fusion_off_100mbit.json",
        "fusion_on_100mbit.json",
        "one_large_100mbit.json",
    ]


def test_without_a_network_there_is_nothing_to_measure(monkeypatch):
    launch = fusion.launch

    def without(*arguments, link=None, **options):
        evidence = launch(*arguments, **options)
        return dataclasses.replace(evidence, no_link="namespaces are off")

    monkeypatch.setattr(fusion, "launch", without)
    with pytest.raises(UserError, match="no network can be emulated here: namespaces are off"):
        fusion.bench(rounds=1, rates=["1gbit"], report=lambda line: None)
