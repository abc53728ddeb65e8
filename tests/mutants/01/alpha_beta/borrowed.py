# wrong: the library of the course has the formulas
# hint: library
from hpml.predict.collectives import Cost, all_reduce_seconds


def naive(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """Seconds of an all-reduce of `nbytes` over `ranks`, through rank 0.

    alpha: seconds per message; beta: seconds per byte sent; gamma: seconds per byte added.
    """
    return all_reduce_seconds("naive", nbytes, ranks, Cost(alpha, beta, gamma))


def tree(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, up a binomial tree and down again."""
    return all_reduce_seconds("tree", nbytes, ranks, Cost(alpha, beta, gamma))


def ring(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, around a ring."""
    return all_reduce_seconds("ring", nbytes, ranks, Cost(alpha, beta, gamma))


def halving_doubling(nbytes: int, ranks: int, alpha: float, beta: float, gamma: float) -> float:
    """The same, by halving and doubling. `ranks` is a power of two."""
    return all_reduce_seconds("halving-doubling", nbytes, ranks, Cost(alpha, beta, gamma))
