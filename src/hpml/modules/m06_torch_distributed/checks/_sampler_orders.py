"""What orders of samples have in common: with each other, and with the parts that ranks took."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any


def padded(whole: list[int], orders: Sequence[list[int]]) -> list[int]:
    """The order, repeated from its start until it is long enough for these parts."""
    return list(itertools.islice(itertools.cycle(whole), sum(map(len, orders))))


def parts_of(order: list[int], orders: Sequence[list[int]]) -> bool:
    """Whether each is every W-th sample of the order, or each a block, as far as it goes."""
    ranks, share = len(orders), len(orders[0])
    if any(len(own) != share for own in orders):
        return False
    shuffled = (
        [orders[place % ranks][place // ranks] for place in range(ranks * share)],
        list(itertools.chain(*orders)),
    )
    return any(one[: len(order)] == order for one in shuffled)


def stepwise(order: list[Any]) -> bool:
    """Whether most neighbours differ by the same step: then the order is not shuffled."""
    steps = Counter(b - a for a, b in itertools.pairwise(order))
    return steps.most_common(1)[0][1] > len(order) / 2


def neighbours(order: list[int]) -> set[frozenset[int]]:
    """The pairs of samples that follow each other, in either direction."""
    return {frozenset(pair) for pair in itertools.pairwise(order)}


def keeps_neighbours(ranks: list[dict[str, Any]]) -> tuple[int, int, int] | None:
    """The first (rank, epoch's index, earlier epoch's index) such that most samples follow those
    that they followed in the earlier epoch, on whichever rank. Of random orders 2 pairs do."""
    for earlier, later in itertools.combinations(range(len(ranks[0]["orders"])), 2):
        before = set().union(*(neighbours(said["orders"][earlier]) for said in ranks))
        for rank, said in enumerate(ranks):
            pairs = neighbours(said["orders"][later])
            if len(pairs & before) > len(pairs) * 2 / 3:
                return rank, later, earlier
    return None
