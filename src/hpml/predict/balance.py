"""Samples of different cost, shared among ranks: by their number, or by what they cost."""

import heapq
from collections.abc import Sequence


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


def pace(shares: Sequence[Sequence[float]]) -> float:
    """What the slowest rank has to do, and so how long a synchronous step takes."""
    return max(sum(share) for share in shares)


def imbalance(shares: Sequence[Sequence[float]]) -> float:
    """The slowest rank's work over the mean: 1 where all have the same."""
    return pace(shares) * len(shares) / sum(sum(share) for share in shares)
