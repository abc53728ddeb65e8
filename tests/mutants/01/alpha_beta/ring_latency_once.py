# wrong: counts the latency of a ring once
# hint: latency_once
# claim: around a ring
def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes * beta)


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    levels = (ranks - 1).bit_length()
    return 2 * levels * (alpha + nbytes * beta)


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    if ranks == 1:
        return 0.0
    return alpha + 2 * (ranks - 1) / ranks * nbytes * beta


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    steps = (ranks - 1).bit_length()
    return 2 * (steps * alpha + (ranks - 1) / ranks * nbytes * beta)
