"""What collectives cost: the least bytes from each rank, and seconds by the α–β–γ model.

A message of n bytes takes α + n β seconds between any two ranks, and γ per byte that is added up on
arrival; a rank sends and receives at the same time, one message each (Hockney 1994, The
communication challenge for MPP; Thakur, Rabenseifner and Gropp 2005, Optimization of collective
communication operations in MPICH, section 3). So the limit is each rank's own link, in each
direction; messages that a rank receives at the same time share it.
"""

from dataclasses import dataclass


def all_reduce_bytes(world_size: int, nbytes: float) -> float:
    """Bytes that each rank must send, and receive, so that all have the sum of `nbytes` of each.

    2 (p-1)/p · n: half of it to make the sums, half to spread them.
    No algorithm in which all ranks send alike needs less, and a ring needs just that (Patarasuk and
    Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations, section 3).
    """
    return 2 * (world_size - 1) / world_size * nbytes


def broadcast_bytes(world_size: int, nbytes: int) -> float:
    """Bytes that the busiest rank sends when rank 0's `nbytes` go to all along a binomial tree.

    ⌈log₂ p⌉ · n, by the root, which has one child per level (Thakur, Rabenseifner and Gropp 2005,
    Optimization of collective communication operations in MPICH, section 4.3).
    """
    return (world_size - 1).bit_length() * nbytes


def seconds(nbytes: float, rate: float) -> float:
    """Seconds that `nbytes` take on a link of `rate` bit/s, without latency and headers."""
    return 8 * nbytes / rate


@dataclass(frozen=True)
class Cost:
    """α, β and γ of a network and its ranks: seconds per message, per byte sent, per byte added."""

    alpha: float
    beta: float
    gamma: float = 0.0


def least_seconds(nbytes: float, ranks: int, cost: Cost) -> float:
    """Lower bound on the seconds of an all-reduce of `nbytes`, by bytes alone: 2 (p-1)/p · n β."""
    return all_reduce_bytes(ranks, nbytes) * cost.beta


def all_reduce_seconds(
    algorithm: str,
    nbytes: float,
    ranks: int,
    cost: Cost,
    per_node: int | None = None,
    across: Cost | None = None,
) -> float:
    """Seconds of an all-reduce of `nbytes` over `ranks`, by one of `hpml.allreduce.ALGORITHMS`, or
    by recursive doubling.

    With p ranks, n bytes, q the largest power of two up to p, N nodes of g ranks:

        naive             2 (p-1) α    + 2 (p-1) n β       + (p-1) n γ
        tree              2 ⌈log₂ p⌉ α + 2 ⌈log₂ p⌉ n β    + ⌈log₂ p⌉ n γ
        ring              2 (p-1) α    + 2 (p-1)/p n β     + (p-1)/p n γ
        halving-doubling  2 log₂ q α   + 2 (q-1)/q n β     + (q-1)/q n γ
                          and 2 α + 2 n β + n γ more where q < p
        hierarchical      2 (g-1) α    + 2 (g-1)/g n β     + (g-1)/g n γ
                          and 2 (N-1) α + 2 (N-1)/N n/g β  + (N-1)/N n/g γ more
        recursive-doubling  log₂ q (α + n β + n γ)
                          and 2 α + 2 n β + n γ more where q < p

    Tree and halving-doubling (there Rabenseifner's algorithm) are Thakur, Rabenseifner and Gropp's
    (2005, on reduce and all-reduce), ring is Patarasuk and Yuan's (2009, section 3); naive follows
    from the root's link, hierarchical from a ring in each node, g of them across, and one back in
    each node (as in Cho et al. 2019, BlueConnect). All hold for every number of ranks. They take
    parts as equal, and leave out that adding may hide behind sending.

    `per_node` (default: all) and `across` count for "hierarchical" alone. `across` are the α and β
    of the link that a node's ranks share to reach the other nodes: then 2 (N-1)/N n β with that β
    or with the ranks' own, whichever is more. For other algorithms on such a network see
    `hpml.allreduce.Schedule.seconds`, which also gives all of the above, step by step.

    Raises ValueError for an algorithm that is not known.
    """
    p, n = ranks, nbytes
    if algorithm == "naive":
        return _sum(cost, 2 * (p - 1), 2 * (p - 1) * n, (p - 1) * n)
    if algorithm == "tree":
        levels = (p - 1).bit_length()
        return _sum(cost, 2 * levels, 2 * levels * n, levels * n)
    if algorithm == "ring":
        return _rings(cost, p, n)
    if algorithm == "halving-doubling":
        q = 1 << (p.bit_length() - 1)
        halved = (q - 1) / q * n
        return _fold(cost, p, n) + _sum(cost, 2 * (q.bit_length() - 1), 2 * halved, halved)
    if algorithm == "recursive-doubling":
        levels = p.bit_length() - 1
        return _fold(cost, p, n) + _sum(cost, levels, levels * n, levels * n)
    if algorithm == "hierarchical":
        g = per_node or p
        nodes, share = p // g, n / g
        if across is not None:
            beta = max(cost.beta, g * across.beta)  # of each of the g that send at the same time
            across = Cost(across.alpha, beta, cost.gamma)
        return _rings(cost, g, n) + _rings(across or cost, nodes, share)
    raise ValueError(f"all-reduce {algorithm!r} is not one of hpml.allreduce.ALGORITHMS")


def _fold(cost: Cost, ranks: int, nbytes: float) -> float:
    """What it takes to let a power of two of ranks do the rest."""
    return _sum(cost, 2, 2 * nbytes, nbytes) if ranks & (ranks - 1) else 0.0


def _rings(cost: Cost, ranks: int, nbytes: float) -> float:
    """A reduce-scatter and an all-gather, each around a ring."""
    most = (ranks - 1) / ranks * nbytes
    return _sum(cost, 2 * (ranks - 1), 2 * most, most)


def _sum(cost: Cost, messages: int, sent: float, added: float) -> float:
    return messages * cost.alpha + sent * cost.beta + added * cost.gamma
