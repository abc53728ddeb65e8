"""The algorithms: each a short function that returns a schedule's number of parts and its steps."""

from collections.abc import Sequence
from itertools import chain

from hpml.allreduce.transfers import Schedule, Step, Transfer
from hpml.errors import UserError

ALGORITHMS = ("naive", "tree", "ring", "halving-doubling", "hierarchical")
RECURSIVE_DOUBLING = "recursive-doubling"  # module 08's, for small tensors

Blocks = Sequence[tuple[int, int]]  # of parts, each [first, last)


def schedule(algorithm: str, world_size: int, per_node: int | None = None) -> Schedule:
    """The steps of `algorithm` on `world_size` ranks.

    `per_node` counts for "hierarchical" alone: rank r is on node r // per_node. Without it all
    ranks are on one node.

    `algorithm` is one of `ALGORITHMS` or RECURSIVE_DOUBLING. Raises UserError for any other, and
    where `per_node` does not divide `world_size`.
    """
    if algorithm == "naive":
        parts, steps = naive(world_size)
    elif algorithm == "tree":
        parts, steps = tree(world_size)
    elif algorithm == "ring":
        parts, steps = ring(world_size)
    elif algorithm == "halving-doubling":
        parts, steps = halving_doubling(world_size)
    elif algorithm == "hierarchical":
        parts, steps = hierarchical(world_size, per_node or world_size)
    elif algorithm == RECURSIVE_DOUBLING:
        parts, steps = recursive_doubling(world_size)
    else:
        raise UserError(f"all-reduce {algorithm!r} is not known: give {', '.join(ALGORITHMS)}")
    return Schedule(algorithm, world_size, parts, tuple(steps))


def naive(world_size: int) -> tuple[int, list[Step]]:
    """All ranks send everything to rank 0, which adds up and sends the sum to all."""
    others = range(1, world_size)
    gather = tuple(Transfer(rank, 0, 0, 1, adds=True) for rank in others)
    scatter = tuple(Transfer(0, rank, 0, 1, adds=False) for rank in others)
    return 1, [gather, scatter] if world_size > 1 else []


def tree(world_size: int) -> tuple[int, list[Step]]:
    """Up a binomial tree to rank 0, adding, and down again (Thakur, Rabenseifner and Gropp 2005).

    Step k up: a rank whose lowest set bit is k sends to the rank without that bit.
    """
    up = [
        tuple(
            Transfer(rank, rank - distance, 0, 1, adds=True)
            for rank in range(distance, world_size, 2 * distance)
        )
        for distance in _powers_of_two(world_size)
    ]
    down = [tuple(Transfer(t.destination, t.source, 0, 1, adds=False) for t in step) for step in up]
    return 1, up + down[::-1]


def ring(world_size: int) -> tuple[int, list[Step]]:
    """Reduce-scatter, then all-gather, each rank sending to the next (Patarasuk and Yuan 2009)."""
    members = range(world_size)
    blocks = [(part, part + 1) for part in members]
    return world_size, ring_reduce_scatter(members, blocks) + ring_all_gather(members, blocks)


def ring_reduce_scatter(members: Sequence[int], blocks: Blocks) -> list[Step]:
    """One block for each of the ranks `members`: number m ends with the sum of block m + 1.

    In step s number m sends block m - s to number m + 1, which adds it to its own.
    """
    return [_round_the_ring(members, blocks, -step, adds=True) for step in range(len(members) - 1)]


def ring_all_gather(members: Sequence[int], blocks: Blocks) -> list[Step]:
    """Number m begins with the whole of block m + 1; all end with all.

    In step s number m sends block m + 1 - s to number m + 1.
    """
    return [
        _round_the_ring(members, blocks, 1 - step, adds=False) for step in range(len(members) - 1)
    ]


def _round_the_ring(members: Sequence[int], blocks: Blocks, shift: int, adds: bool) -> Step:
    size = len(members)
    return tuple(
        Transfer(members[m], members[(m + 1) % size], *blocks[(m + shift) % size], adds)
        for m in range(size)
    )


def halving_doubling(world_size: int) -> tuple[int, list[Step]]:
    """Halves to a partner, then a half of that half ..., and back (Thakur, Rabenseifner and Gropp
    2005, section 4.5: "Rabenseifner's algorithm").

    The largest power of two of ranks takes part. With r ranks too many, each even one of the first
    2r first sends all it has to the odd one after it, and receives the sum at the end.
    """
    size = 1 << (world_size.bit_length() - 1)
    members, fold, unfold = _folded(world_size, size)
    halve = [
        tuple(
            Transfer(members[m], members[m ^ half], *_kept(m ^ half, half), adds=True)
            for m in range(size)
        )
        for half in _powers_of_two(size)[::-1]
    ]
    double = [
        tuple(
            Transfer(members[m], members[m ^ half], *_kept(m, half), adds=False)
            for m in range(size)
        )
        for half in _powers_of_two(size)
    ]
    return size, fold + halve + double + unfold


def recursive_doubling(world_size: int) -> tuple[int, list[Step]]:
    """All of the tensor, exchanged with the member at distance 1, then 2, 4 ... (Thakur,
    Rabenseifner and Gropp 2005, on all-reduce).

    Half as many messages as halving-doubling, log₂ p, and more bytes: n in each of them. With ranks
    too many it does as `halving_doubling`.
    """
    members, fold, unfold = _folded(world_size, 1)
    exchange = [
        tuple(
            Transfer(members[m], members[m ^ distance], 0, 1, adds=True)
            for m in range(len(members))
        )
        for distance in _powers_of_two(len(members))
    ]
    return 1, fold + exchange + unfold


def _folded(world_size: int, parts: int) -> tuple[list[int], list[Step], list[Step]]:
    """A power of two of members, and the steps that make it: none, or one before and one after."""
    size = 1 << (world_size.bit_length() - 1)
    surplus = world_size - size
    members = [*range(1, 2 * surplus, 2), *range(2 * surplus, world_size)]
    fold = tuple(Transfer(r, r + 1, 0, parts, adds=True) for r in range(0, 2 * surplus, 2))
    unfold = tuple(Transfer(t.destination, t.source, 0, parts, adds=False) for t in fold)
    return members, [fold] * bool(fold), [unfold] * bool(unfold)


def _kept(member: int, half: int) -> tuple[int, int]:
    """The parts that a member keeps once halves have shrunk to `half` parts."""
    first = member // half * half
    return first, first + half


def hierarchical(world_size: int, per_node: int) -> tuple[int, list[Step]]:
    """Reduce-scatter within each node, all-reduce across nodes, all-gather within (Cho et al. 2019,
    BlueConnect).

    All three are rings. Each rank of a node all-reduces its own share with the ranks in its place
    on the other nodes. So the link of a node carries 2 (N-1)/N · n bytes each way for N nodes, as
    if each node were one rank.
    """
    if per_node < 1 or world_size % per_node:
        raise UserError(
            f"hierarchical all-reduce: {world_size} ranks do not make nodes of {per_node}: "
            "give a divisor"
        )
    count = world_size // per_node
    nodes = [range(n * per_node, (n + 1) * per_node) for n in range(count)]
    shares = [(place * count, (place + 1) * count) for place in range(per_node)]
    within = [ring_reduce_scatter(node, shares) for node in nodes]
    across = []
    for place in range(per_node):
        first, last = shares[(place + 1) % per_node]  # what the reduce-scatter left there
        peers = [node[place] for node in nodes]
        blocks = [(part, part + 1) for part in range(first, last)]
        across.append(ring_reduce_scatter(peers, blocks) + ring_all_gather(peers, blocks))
    back = [ring_all_gather(node, shares) for node in nodes]
    return world_size, _together(within) + _together(across) + _together(back)


def _together(rings: Sequence[list[Step]]) -> list[Step]:
    """Rings of one length, run at the same time."""
    return [tuple(chain.from_iterable(steps)) for steps in zip(*rings, strict=True)]


def _powers_of_two(below: int) -> list[int]:
    """1, 2, 4 ... less than `below`."""
    return [1 << bit for bit in range((below - 1).bit_length())]
