# wrong: exchanges the whole tensor in every step
# hint: whole
# claim: halves, halves of halves, and back
def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes * beta)


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    levels = (ranks - 1).bit_length()
    return 2 * levels * (alpha + nbytes * beta)


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes / ranks * beta)


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    steps = (ranks - 1).bit_length()
    return steps * (alpha + nbytes * beta)
