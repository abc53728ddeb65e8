"""Which of a launch's calls are those that it failed in."""

from collections.abc import Collection

from hpml.ranks.evidence import Call, Evidence, RankEvidence
from hpml.trace.layout import drawn_calls

MOST = 8  # marks in one picture


def failing_calls(evidence: Evidence, lines: Collection[int] = ()) -> frozenset[tuple[int, int]]:
    """(rank, index of its call) for each call that a launch failed in.

    Where ranks wait for each other, the calls that never completed. Where a rank raised or ended
    otherwise, those calls of that rank, and the call in the line that raised: what others wait for
    is then a consequence. Where calls differ between ranks, and all are complete, the last of each
    rank that differs. Where every rank returned, the calls made in one of `lines`: those of the
    answer that the reports of what does not hold name; of more than MOST, none.
    """
    diagnosis = evidence.diagnosis
    if diagnosis is None:
        named = [
            (rank.rank, call.index)
            for rank in evidence.ranks
            for call in drawn_calls(rank)
            if call.line in lines
        ]
        return frozenset(named if len(named) <= MOST else ())
    together = diagnosis.kind in ("hang", "mismatch", "limit", "flood")
    found = {
        (rank.rank, call.index)
        for rank in evidence.ranks
        for call in drawn_calls(rank)
        if call.finished is None and (together or rank.rank in diagnosis.ranks)
    }
    found |= {
        (rank.rank, call.index)
        for rank in evidence.ranks
        if rank.rank in diagnosis.ranks and (call := _raised_in(rank))
    }
    if not found and diagnosis.kind == "mismatch":
        found = {
            (rank.rank, calls[-1].index)
            for rank in evidence.ranks
            if rank.rank in diagnosis.ranks and (calls := drawn_calls(rank))
        }
    return frozenset(found)


def _raised_in(rank: RankEvidence) -> Call | None:
    """The rank's last call, if its exception left from the line of that call."""
    calls = drawn_calls(rank)
    if rank.raised is None or not calls or calls[-1].line is None:
        return None
    return calls[-1] if calls[-1].line == rank.raised.line else None
