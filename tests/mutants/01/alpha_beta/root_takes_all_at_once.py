# wrong: has rank 0 receive from everybody at the same time
# hint: at_once
# claim: everything through one rank
def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (alpha + nbytes * beta) if ranks > 1 else 0.0


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    levels = (ranks - 1).bit_length()
    return 2 * levels * (alpha + nbytes * beta)


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes / ranks * beta)


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    steps = (ranks - 1).bit_length()
    return 2 * (steps * alpha + (ranks - 1) / ranks * nbytes * beta)
