"""The calls of a launch as text: a row per rank, with a cross on the one that failed."""

from hpml.checks.calls_in_order import RANKS, WIDTH, calls_in_order
from hpml.ranks.evidence import Call, Diagnosis, Evidence, RankEvidence


def call(index: int, operation: str = "all_reduce", finished: float | None = 0.2, **more) -> Call:
    made = {"group": (0, 1), "sequence": index, "dtype": "float32", "shape": (4,), "nbytes": 16}
    return Call(index, operation, **made | {"reduction": "sum", "line": 5} | more, issued=0.1,
                finished=finished)  # fmt: skip


def test_ranks_that_wait_for_each_other():
    ranks = (
        RankEvidence(0, "ended", calls=(call(1), call(2, "barrier", None))),
        RankEvidence(1, "returned", calls=(call(1),)),
    )
    evidence = Evidence(2, ranks, 1.0, Diagnosis("hang", "rank 0 waits", (1,)))
    assert calls_in_order(evidence).splitlines() == [
        "rank 0  1 all_reduce  2 ✗ barrier",
        "rank 1  1 all_reduce  returned",
    ]


def test_a_rank_that_sends_to_one():
    calls = (call(1, "send", None, reduction="", peer=1),)
    evidence = Evidence(
        1, (RankEvidence(0, "ended", calls=calls),), 1.0, Diagnosis("hang", "x", (0,))
    )
    assert calls_in_order(evidence) == "rank 0  1 ✗ send to 1"


def test_where_a_rank_raised_the_others_waits_are_no_cause():
    ranks = (
        RankEvidence(0, "ended", calls=(call(1, finished=None),)),
        RankEvidence(1, "killed", signal="SIGKILL"),
    )
    evidence = Evidence(2, ranks, 1.0, Diagnosis("killed", "rank 1 was killed", (1,)))
    assert calls_in_order(evidence).splitlines() == ["rank 0  1 all_reduce", "rank 1  killed"]


def test_of_many_calls_the_last_that_fit():
    calls = tuple(call(k) for k in range(1, 500))
    ranks = tuple(RankEvidence(rank, "returned", calls=calls) for rank in range(RANKS + 4))
    rows = calls_in_order(Evidence(len(ranks), ranks, 1.0)).splitlines()
    assert len(rows) == RANKS + 1
    assert rows[0].startswith("rank 0  … ")
    assert rows[0].endswith("499 all_reduce  returned")
    assert max(map(len, rows)) <= WIDTH


def test_without_calls_there_is_nothing():
    assert calls_in_order(Evidence(1, (RankEvidence(0, "returned"),), 1.0)) == ""


def test_where_every_rank_returned_calls_in_a_line_that_is_named_have_the_cross():
    calls = (call(1, line=5), call(2, "broadcast", line=7))
    evidence = Evidence(1, (RankEvidence(0, "returned", calls=calls),), 1.0)
    assert calls_in_order(evidence, [7]) == "rank 0  1 all_reduce  2 ✗ broadcast  returned"
    many = tuple(call(k, line=7) for k in range(1, 20))
    evidence = Evidence(1, (RankEvidence(0, "returned", calls=many),), 1.0)
    assert "✗" not in calls_in_order(evidence, [7])
