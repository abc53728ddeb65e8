# wrong: cannot do one rank
# hint: raised
# claim: everything through one rank
import math


def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes * beta)


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    levels = math.ceil(1 / math.log(2, ranks))
    return 2 * levels * (alpha + nbytes * beta)


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes / ranks * beta)


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    steps = math.ceil(1 / math.log(2, ranks))
    return 2 * (steps * alpha + (ranks - 1) / ranks * nbytes * beta)
