# wrong: has the library say it
# hint: library
# claim: everything through one rank
from hpml.predict.collectives import Cost, all_reduce_seconds


def naive_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return all_reduce_seconds("naive", nbytes, ranks, Cost(alpha, beta))


def tree_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return all_reduce_seconds("tree", nbytes, ranks, Cost(alpha, beta))


def ring_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return all_reduce_seconds("ring", nbytes, ranks, Cost(alpha, beta))


def halving_doubling_seconds(nbytes: int, ranks: int, alpha: float, beta: float) -> float:
    return all_reduce_seconds("halving-doubling", nbytes, ranks, Cost(alpha, beta))
