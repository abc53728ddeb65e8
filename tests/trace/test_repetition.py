"""The quickest of several repetitions, cut out of a launch."""

import pytest

from hpml.ranks.evidence import Call, Evidence, Mark, RankEvidence
from hpml.trace.repetition import issued_between, messages_and_seconds, phases, quickest


def rank(number, spans, calls=()):
    """A rank that marked begin and end at the moments `spans`, and issued calls at `calls`."""
    marks = [Mark(name, at) for span in spans for name, at in zip(("begin", "end"), span)]  # noqa: B905
    made = [
        Call(k, "barrier", (0, 1), k, "", (), 0, "", None, at, at, at + 9)
        for k, at in enumerate(calls, 1)
    ]
    return RankEvidence(number, "returned", marks=tuple(marks), calls=tuple(made))


def both(first, second):
    return Evidence(2, (first, second), 10.0)


def test_what_is_left_is_the_quickest_repetition():
    spans = [(0, 4), (5, 6), (7, 9)]
    found = quickest(both(rank(0, spans, [1, 5.5, 8]), rank(1, spans, [2, 5.6])), "begin", "end")
    assert [[call.issued for call in one.calls] for one in found.ranks] == [[5.5], [5.6]]
    assert [mark.at for mark in found.ranks[0].marks] == [5, 6]


def test_the_slowest_rank_counts():
    first = rank(0, [(0, 1), (10, 12)])
    second = rank(1, [(0, 5), (10, 13)])
    assert quickest(both(first, second), "begin", "end").ranks[0].marks[0].at == 10


def test_a_rank_that_begins_early_counts():
    first = rank(0, [(0, 5), (10, 14)])
    second = rank(1, [(4, 5), (10, 14)])
    assert quickest(both(first, second), "begin", "end").ranks[0].marks[0].at == 10


def test_a_mark_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="rank 0 has no mark 'step'"):
        quickest(both(rank(0, [(0, 1)]), rank(1, [(0, 1)])), "begin", "step")


def test_unequal_repetitions_are_refused():
    with pytest.raises(ValueError, match="different numbers"):
        quickest(both(rank(0, [(0, 1), (2, 3)]), rank(1, [(0, 1)])), "begin", "end")


def test_a_phase_goes_from_the_last_ranks_mark_to_its_next():
    def marked(number, *repetitions):
        names = ("compute", "communicate", "done")
        marks = [Mark(name, at) for each in repetitions for name, at in zip(names, each)]  # noqa: B905
        return RankEvidence(number, "returned", marks=tuple(marks))

    evidence = both(
        marked(0, (0, 5, 6), (10.0, 12.0, 14.0)), marked(1, (0, 1, 6), (10.5, 11.0, 14.5))
    )
    found = phases(evidence, ["compute", "communicate", "done"])
    assert found == {"compute": 1.5, "communicate": 2.5}


def test_calls_between_two_marks_are_those_issued_there():
    one = rank(0, [(1, 3)], [0.5, 1.5, 2.5, 3.5])
    assert [call.issued for call in issued_between(one, "begin", "end")] == [1.5, 2.5]
    with pytest.raises(ValueError, match="rank 0 has no mark 'step'"):
        issued_between(one, "begin", "step")


def test_messages_and_seconds_of_the_quickest():
    def sending(number, operations):
        marks = [Mark(f"all {what}", at) for at, what in ((0, "begins"), (4, "ends"))]
        marks += [Mark(f"all {what}", at + number) for at, what in ((5, "begins"), (7, "ends"))]
        calls = [
            Call(k, operation, (0, 1), k, "", (), 40, "", None, at, at, at + 1)
            for k, (operation, at) in enumerate(operations)
        ]
        return RankEvidence(number, "returned", marks=tuple(marks), calls=tuple(calls))

    operations = [("all_reduce", 1), ("all_reduce", 5.5), ("barrier", 6), ("all_reduce", 6.5)]
    first, second = sending(0, operations), sending(1, operations)
    assert messages_and_seconds(both(first, second), "all") == (2, 80, 3)
