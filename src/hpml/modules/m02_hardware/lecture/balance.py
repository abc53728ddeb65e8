"""Samples of different cost, shared among ranks: by their number, or by what they cost."""

import heapq
from collections.abc import Mapping, Sequence

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


def waits_less(evidence: Evidence, shares: Mapping[str, Shares]) -> tuple[bool, str, str]:
    """For `conclude`: the second way's step against the first's, as measured."""
    (first, before), (second, after) = shares.items()
    slow, quick = (messages_and_seconds(evidence, name)[-1] for name in shares)
    idle, still = (idle_share(_done(evidence, name)) for name in shares)
    return (
        quick < 0.9 * slow and still < idle,
        f"**Answer.** {idle:.0%}. The slowest rank has {imbalance(before):.2f} times the mean, and "
        f"the step takes {slow * 1e3:.0f} ms. Shared {second} it has {imbalance(after):.2f} times "
        "the mean, "
        f"and the step takes {quick * 1e3:.0f} ms.",
        f"ranks idled {idle:.0%} of the time {first}, {still:.0%} {second}: where others use the "
        "cores, pauses end late.",
    )


def uneven_takes_longer(evidence: Evidence) -> tuple[bool, str, str]:
    """For `conclude`: a step of 48 and 16 images ("uneven") against one of 32 and 32 ("even")."""
    even, odd = (messages_and_seconds(evidence, name)[-1] for name in ("even", "uneven"))
    return (
        odd > 1.15 * even,
        f"**Answer.** {odd / even:.2f} times: {odd * 1e3:.0f} ms in place of {even * 1e3:.0f} ms. "
        "The whole work is the same, and 48 images are 1.5 times 32. One rank waits for the other.",
        f"{odd * 1e3:.0f} ms against {even * 1e3:.0f} ms: with less than two free cores the ranks "
        "share one, and then only the sum counts.",
    )


def _done(evidence: Evidence, name: str) -> list[Computation]:
    return computations(quickest(evidence, since=f"{name} begins", until=f"{name} ends"))
