# %%answer alpha_beta
# unusual: counted step by step in loops, with a dataclass of its own and operators
from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Load:
    messages: float = 0
    sent: float = 0
    added: float = 0

    def __add__(self, other: Load) -> Load:
        return Load(*(a + b for a, b in zip(astuple(self), astuple(other))))

    def seconds(self, *prices: float) -> float:
        return sum(a * b for a, b in zip(astuple(self), prices))


def naive(nbytes, ranks, alpha, beta, gamma):
    load = Load()
    for _ in range(ranks - 1):
        load += Load(1, nbytes, nbytes)
        load += Load(1, nbytes)
    return load.seconds(alpha, beta, gamma)


def tree(nbytes, ranks, alpha, beta, gamma):
    load, reached = Load(), 1
    while reached < ranks:
        load += Load(1, nbytes, nbytes) + Load(1, nbytes)
        reached *= 2
    return load.seconds(alpha, beta, gamma)


def ring(nbytes, ranks, alpha, beta, gamma):
    load = Load()
    for _ in range(1, ranks):
        load += Load(1, nbytes / ranks, nbytes / ranks)
        load += Load(1, nbytes / ranks)
    return load.seconds(alpha, beta, gamma)


def halving_doubling(nbytes, ranks, alpha, beta, gamma):
    load, share = Load(), nbytes
    while ranks > 1:
        ranks, share = ranks // 2, share / 2
        load += Load(1, share, share) + Load(1, share)
    return load.seconds(alpha, beta, gamma)
