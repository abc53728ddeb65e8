# wrong: does not round the levels of a tree
# hint: not_rounded
# claim: up a tree and down again
import math


def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes * beta)


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * math.log2(ranks) * (alpha + nbytes * beta)


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes / ranks * beta)


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    steps = (ranks - 1).bit_length()
    return 2 * (steps * alpha + (ranks - 1) / ranks * nbytes * beta)
