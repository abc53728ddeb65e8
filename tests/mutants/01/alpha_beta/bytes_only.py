# wrong: leaves latency out
# hint: no_latency
# claim: around a ring
def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * nbytes * beta


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1).bit_length() * nbytes * beta


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) / ranks * nbytes * beta


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) / ranks * nbytes * beta
