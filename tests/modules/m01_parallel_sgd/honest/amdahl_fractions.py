# %%answer amdahl
# unusual: exact fractions, a decorator, an int where the speed-up is whole
from fractions import Fraction
from functools import lru_cache, wraps


def plain(formula):
    @wraps(formula)
    @lru_cache
    def rounded(value, ranks):
        found = formula(Fraction(value), Fraction(ranks))
        return int(found) if found.denominator == 1 else float(found)

    return rounded


@plain
def strong_speedup(serial: float, ranks: int) -> float:
    return 1 / (serial + (1 - serial) / ranks)


@plain
def weak_speedup(serial: float, ranks: int) -> float:
    return ranks + (1 - ranks) * serial


@plain
def efficiency(speedup: float, ranks: int) -> float:
    return speedup / ranks


@plain
def serial_fraction(speedup: float, ranks: int) -> float:
    return (ranks / speedup - 1) / (ranks - 1)
