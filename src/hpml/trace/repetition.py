"""One repetition out of several: what every rank did between two of its marks."""

from collections.abc import Sequence
from dataclasses import replace

from hpml.ranks.evidence import Call, Evidence, RankEvidence


def quickest(evidence: Evidence, since: str, until: str) -> Evidence:
    """The evidence of one repetition only: the one that took the least time.

    A drive marks `since` and `until` once in each repetition. That one is taken for which the time
    from the first rank's `since` to the last rank's `until` is the shortest; each rank keeps the
    calls it issued and the marks it made from the one to the other. Where other programs use the
    machine too, the quickest is disturbed least.

    Raises ValueError where a rank lacks one of the marks, or has another number of them than the
    other ranks.
    """
    begins = [_moments(rank, since) for rank in evidence.ranks]
    ends = [_moments(rank, until) for rank in evidence.ranks]
    counts = {len(moments) for moments in (*begins, *ends)}
    if len(counts) != 1:
        raise ValueError(f"ranks have different numbers of the marks {since!r} and {until!r}")
    spans = [
        (max(end[k] for end in ends) - min(begin[k] for begin in begins), k)
        for k in range(counts.pop())
    ]
    _, k = min(spans)
    ranks = tuple(
        _within(rank, begin[k], end[k])
        for rank, begin, end in zip(evidence.ranks, begins, ends, strict=True)
    )
    return replace(evidence, ranks=ranks)


def phases(evidence: Evidence, names: Sequence[str]) -> dict[str, float]:
    """Seconds that each phase of the quickest repetition took, by the mark that begins it.

    A drive marks each of `names` once in each repetition, in this order; the last one only ends the
    phase before. A phase lasts from the last rank's mark to the last rank's next: all wait for
    the slowest.

    Raises ValueError as `quickest` does.
    """
    one = quickest(evidence, since=names[0], until=names[-1])
    ends = [max(moment for rank in one.ranks for moment in _moments(rank, name)) for name in names]
    return {name: end - begin for name, begin, end in zip(names, ends, ends[1:], strict=False)}


def issued_between(rank: RankEvidence, since: str, until: str) -> list[Call]:
    """The calls that a rank issued between its first mark `since` and its first mark `until`.

    Raises ValueError where the rank lacks one of the marks.
    """
    begin, end = _moments(rank, since)[0], _moments(rank, until)[0]
    return [call for call in rank.calls if begin <= call.issued <= end]


def _moments(rank: RankEvidence, name: str) -> list[float]:
    moments = [mark.at for mark in rank.marks if mark.name == name]
    if not moments:
        raise ValueError(f"rank {rank.rank} has no mark {name!r}")
    return moments


def _within(rank: RankEvidence, begin: float, end: float) -> RankEvidence:
    return replace(
        rank,
        calls=tuple(call for call in rank.calls if begin <= call.issued <= end),
        marks=tuple(mark for mark in rank.marks if begin <= mark.at <= end),
    )


def messages_and_seconds(evidence: Evidence, name: str) -> tuple[int, int, float]:
    """How many collectives or messages a rank issued in the quickest repetition, their bytes, and
    its seconds, from the first rank's mark "NAME begins" to the last rank's "NAME ends".

    Calls are those of rank 0; barriers do not count. Raises ValueError as `quickest` does.
    """
    since, until = f"{name} begins", f"{name} ends"
    one = quickest(evidence, since, until)
    calls = [call for call in one.ranks[0].calls if call.operation != "barrier"]
    begin = min(_moments(rank, since)[0] for rank in one.ranks)
    end = max(_moments(rank, until)[0] for rank in one.ranks)
    return len(calls), sum(call.nbytes for call in calls), end - begin
