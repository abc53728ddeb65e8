# wrong: multiplies bytes by 8
# hint: bits
# claim: everything through one rank
def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + 8 * nbytes * beta)


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    levels = (ranks - 1).bit_length()
    return 2 * levels * (alpha + 8 * nbytes * beta)


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + 8 * nbytes / ranks * beta)


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    steps = (ranks - 1).bit_length()
    return 2 * (steps * alpha + (ranks - 1) / ranks * 8 * nbytes * beta)
