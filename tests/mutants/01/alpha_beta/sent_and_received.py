# wrong: what a rank sends and what it receives are both counted
# hint: bytes
def naive(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """Seconds of an all-reduce of `nbytes` over `ranks`, through rank 0.

    alpha: seconds per message; beta: seconds per byte sent; gamma: seconds per byte added.
    """
    others = ranks - 1
    return 2 * others * (alpha + nbytes * beta) + others * nbytes * gamma


def tree(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, up a binomial tree and down again."""
    steps = (ranks - 1).bit_length()
    return 2 * steps * (alpha + nbytes * beta) + steps * nbytes * gamma


def ring(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, around a ring."""
    steps, part = ranks - 1, nbytes / ranks
    return 2 * steps * (alpha + 2 * part * beta) + steps * part * gamma


def halving_doubling(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, by halving and doubling. `ranks` is a power of two."""
    steps, share = ranks.bit_length() - 1, (ranks - 1) / ranks * nbytes
    return 2 * (steps * alpha + share * beta) + share * gamma
