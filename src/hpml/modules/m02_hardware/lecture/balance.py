"""Samples of different cost, shared among ranks: by their number, or by what they cost."""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from hpml.ranks.evidence import Evidence
from hpml.trace.computations import Computation, computations, idle_share
from hpml.trace.pipeline_picture import pipeline_picture
from hpml.trace.repetition import messages_and_seconds, quickest

Shares = Sequence[Sequence[float]]


def by_count(costs: Sequence[float], ranks: int) -> list[list[float]]:
    """The costs of each rank's samples: as many for each rank, in their order.

    Raises ValueError where they do not divide."""
    if len(costs) % ranks:
        raise ValueError(f"{len(costs)} samples do not divide by {ranks} ranks")
    each = len(costs) // ranks
    return [list(costs[rank * each : (rank + 1) * each]) for rank in range(ranks)]


def by_cost(costs: Sequence[float], ranks: int) -> list[list[float]]:
    """The same by cost: the most expensive first, each to the rank that has the least so far.

    The slowest rank has at most 4/3 - 1/(3 ranks) times the work that it would have at best
    (Graham 1969, Bounds on multiprocessing timing anomalies, theorem 2).
    """
    shares: list[list[float]] = [[] for _ in range(ranks)]
    loads = [(0.0, rank) for rank in range(ranks)]
    for cost in sorted(costs, reverse=True):
        load, rank = heapq.heappop(loads)
        shares[rank].append(cost)
        heapq.heappush(loads, (load + cost, rank))
    return shares


def pace(shares: Shares) -> float:
    """What the slowest rank has to do, and so how long a synchronous step takes."""
    return max(sum(share) for share in shares)


def imbalance(shares: Shares) -> float:
    """The slowest rank's work over the mean: 1 where all have the same."""
    return pace(shares) * len(shares) / sum(sum(share) for share in shares)


def table(shares: Mapping[str, Shares]) -> str:
    """A line for each way to share: by rank, what it has to do and in how many samples."""
    return "\n".join(
        f"{name:10} tokens in sentences, by rank: "
        + ", ".join(f"{sum(one):4} in {len(one):2}" for one in share)
        for name, share in shares.items()
    )


def picture(evidence: Evidence, names: Sequence[str]) -> Figure:
    """The quickest repetition of each way, one below the other; in the boxes, samples of a rank."""
    done = {name: _done(evidence, name) for name in names}
    before, after = (idle_share(done[name]) for name in names)
    return pipeline_picture(
        {f"shared {name}": one for name, one in done.items()},
        title=f"Work shared {names[-1]}: ranks idle {after:.0%} of the time, in place of "
        f"{before:.0%}",
    )


class Waits(NamedTuple):
    """Of two ways to share: seconds of a step, and the share of them in which ranks idle. `held`:
    the second is clearly quicker, and ranks idle less."""

    held: bool
    slow: float
    quick: float
    before: float
    after: float


def waits(evidence: Evidence, names: Sequence[str]) -> Waits:
    """Of the quickest repetition of each way, as measured."""
    slow, quick = (messages_and_seconds(evidence, name)[-1] for name in names)
    before, after = (idle_share(_done(evidence, name)) for name in names)
    return Waits(quick < 0.9 * slow and after < before, slow, quick, before, after)


def _done(evidence: Evidence, name: str) -> list[Computation]:
    return computations(quickest(evidence, since=f"{name} begins", until=f"{name} ends"))
