"""Work that all ranks do round by round, timed in the parent, for as many rounds as it wants.

A round begins when every rank has asked for it, and ends when every rank asks for the next. The
ranks meet at the parent, so that no call of theirs stands in the ledger for it.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpml.ranks import Reply, ask
from hpml.ranks.evidence import Evidence, RankEvidence

NEXT = "next round"


def each_round(work: Callable[[], Any]) -> None:
    """On a rank: `work()` in each round."""
    while ask(NEXT):
        work()


class Rounds:
    """The server of a launch of `world_size` ranks. There is another round as long as `wanted` is
    true of the seconds that each one took."""

    def __init__(self, world_size: int, wanted: Callable[[Sequence[float]], bool]) -> None:
        self._world_size, self._wanted = world_size, wanted
        self._arrived: set[int] = set()
        self._seconds: list[float] = []
        self._began: float | None = None

    def __call__(self, rank: int, request: Any) -> Iterator[Reply]:
        if request != NEXT:
            raise ValueError(f"there is no {str(request)[:40]!r}")
        self._arrived.add(rank)
        if len(self._arrived) == self._world_size:
            self._arrived.clear()
            if self._began is not None:
                self._seconds.append(time.monotonic() - self._began)
            another = self._wanted(self._seconds)
            for each in range(self._world_size):
                yield Reply(each, another)
            self._began = time.monotonic()


def spans(rank: RankEvidence) -> list[tuple[float, float]]:
    """When each of a rank's rounds began and ended."""
    asked = [(one.at, one.answered) for one in rank.asked if one.answered is not None]
    return [(answered, at) for (_, answered), (at, _) in itertools.pairwise(asked)]


def seconds(evidence: Evidence) -> list[float]:
    """Of each round, from the first rank's begin to the last rank's end."""
    return [
        max(end for _, end in ranks) - min(begin for begin, _ in ranks)
        for ranks in zip(*map(spans, evidence.ranks), strict=False)
    ]


def received(rank: RankEvidence) -> list[int]:
    """Bytes that a rank received from others in each round, by calls within it."""
    calls = [
        (c.issued, c.finished, c.nbytes)
        for c in rank.calls
        if c.operation == "recv" and c.finished is not None
    ]
    return [
        sum(n for issued, finished, n in calls if begin <= issued and finished <= end)
        for begin, end in spans(rank)
    ]
