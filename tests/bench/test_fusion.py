"""./hpml bench fusion, for real but short: one slow link, one round."""

import dataclasses

import pytest

from hpml.bench import fusion
from hpml.errors import UserError
from hpml.ranks import flavour
from hpml.trace.horovod_timeline import Operation, Span, Timeline

WHY = flavour.missing("horovod")
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))


def test_fusion_needs_fewer_collectives_for_the_same_bytes(bench_command, monkeypatch):
    monkeypatch.setattr(fusion, "STEPS", 3)
    table = bench_command("fusion", "--rounds", "1", rates=["100mbit"])
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
    step = compared.steps["100mbit", fusion.SMALL_ON][0]
    assert 0 < step.calls < step.seconds
    assert [line[:22].split() for line in str(compared).splitlines()] == [
        ["100", "Mbit/s", *case.name.split()] for case in fusion.CASES
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "fusion_off_100mbit.json",
        "fusion_on_100mbit.json",
        "one_large_100mbit.json",
    ]


def two_cases(fused, one):
    """A comparison of two steps, each with the timeline of one tensor from 0.002 s on."""
    tensor = Operation("a", "ALLREDUCE", Span("NEGOTIATE_ALLREDUCE", 0.002, 0.003))
    end = Operation("b", "ALLREDUCE", activities=(Span("MEMCPY_OUT", 0.008, 0.010),))
    barrier = Operation("barrier", "BARRIER", Span("NEGOTIATE_BARRIER", 0.0, 0.001))
    timeline = Timeline((barrier, tensor, end))
    return fusion.Comparison(
        {("1gbit", fusion.SMALL_ON): (fused, timeline), ("1gbit", fusion.LARGE): (one, timeline)}
    )


def test_what_fusion_leaves_is_computed_from_the_calls():
    fused, one = fusion.Measured(0.021, 1, 8e5, 0.0056), fusion.Measured(0.008, 1, 8e5, 0.0002)
    found = fusion.what_remains(two_cases(fused, one), "1gbit")
    assert found.held
    assert found == pytest.approx((13, 5.6, 8, 8))  # in ms; no barrier


@pytest.mark.parametrize(("seconds", "calls"), [(0.007, 0.0056), (0.010, 0.0056), (0.021, 0.0)])
def test_a_difference_that_the_calls_do_not_explain_is_not_explained(seconds, calls):
    fused, one = fusion.Measured(seconds, 1, 8e5, calls), fusion.Measured(0.008, 1, 8e5, 0.0002)
    assert not fusion.what_remains(two_cases(fused, one), "1gbit").held


def test_a_step_that_the_file_does_not_have_is_no_step_to_draw():
    def operations(tensors):
        return tuple(
            Operation(name, "ALLREDUCE", activities=(Span("GLOO_ALLREDUCE", 0, 1),), message=0)
            for name in tensors
        )

    case = fusion.Case("two", 2, 10)
    assert fusion._is_whole(Timeline(operations("ab")), case)
    assert not fusion._is_whole(Timeline(operations("a")), case)
    assert not fusion._is_whole(Timeline(()), case)


def test_one_message_is_no_messages():
    text = str(two_cases(fusion.Measured(0.021, 1, 8e5), fusion.Measured(0.008, 2, 8e5)))
    assert "  1 message " in text
    assert " 2 messages " in text


def test_without_a_network_there_is_nothing_to_measure(monkeypatch):
    launch = fusion.launch

    def without(*arguments, link=None, **options):
        evidence = launch(*arguments, **options)
        return dataclasses.replace(evidence, no_link="namespaces are off")

    monkeypatch.setattr(fusion, "launch", without)
    with pytest.raises(UserError, match="no network can be emulated here: namespaces are off"):
        fusion.bench(rounds=1, rates=["1gbit"], report=lambda line: None)
