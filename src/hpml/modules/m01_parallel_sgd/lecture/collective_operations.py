"""What each collective does, as a function of what all ranks have before it.

`ranks[r]` is rank r's tensor, a list of parts; a part is anything that can be added up. The root is
rank 0. A rank that has nothing to do with the result has an empty list (MPI 4.1, chapter 6).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce as fold
from operator import add
from typing import TypeVar

Part = TypeVar("Part")  # with +
Ranks = Sequence[Sequence[Part]]


def broadcast(ranks: Ranks) -> list[list]:
    """All get what the root has."""
    return [list(ranks[0]) for _ in ranks]


def reduce(ranks: Ranks) -> list[list]:
    """The root gets the sum, part by part."""
    return [_sums(ranks), *([] for _ in ranks[1:])]


def all_reduce(ranks: Ranks) -> list[list]:
    """All get the sum, part by part."""
    return [_sums(ranks) for _ in ranks]


def gather(ranks: Ranks) -> list[list]:
    """The root gets all ranks' parts, in the ranks' order."""
    return [_joined(ranks), *([] for _ in ranks[1:])]


def scatter(ranks: Ranks) -> list[list]:
    """Rank r gets the root's part r."""
    return [[part] for part in ranks[0]]


def all_gather(ranks: Ranks) -> list[list]:
    """All get all ranks' parts, in the ranks' order."""
    return [_joined(ranks) for _ in ranks]


def reduce_scatter(ranks: Ranks) -> list[list]:
    """Rank r gets the sum of all ranks' parts r."""
    return [[part] for part in _sums(ranks)]


def all_to_all(ranks: Ranks) -> list[list]:
    """Rank r gets each rank's part r, in the ranks' order."""
    return [[parts[r] for parts in ranks] for r in range(len(ranks))]


def _sums(ranks: Ranks) -> list:
    return [fold(add, parts) for parts in zip(*ranks, strict=True)]


def _joined(ranks: Ranks) -> list:
    return [part for parts in ranks for part in parts]


def whole(size: int) -> list[list[int]]:
    """Which parts each rank has before a collective, by number: all of them."""
    return [list(range(size)) for _ in range(size)]


def one_each(size: int) -> list[list[int]]:
    """Rank r has part r alone."""
    return [[rank] for rank in range(size)]


def at_the_root(size: int) -> list[list[int]]:
    """Rank 0 has all parts, the others none."""
    return [list(range(size)), *([] for _ in range(1, size))]


# By name: what it does, and which parts the ranks begin with
COLLECTIVES: Mapping[str, tuple[Callable, Callable[[int], list[list[int]]]]] = {
    "broadcast": (broadcast, at_the_root),
    "reduce": (reduce, whole),
    "scatter": (scatter, at_the_root),
    "gather": (gather, one_each),
    "reduce-scatter": (reduce_scatter, whole),
    "all-gather": (all_gather, one_each),
    "all-reduce": (all_reduce, whole),
    "all-to-all": (all_to_all, whole),
}
