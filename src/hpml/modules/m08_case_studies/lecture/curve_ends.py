"""Both ends of an all-reduce's curve, seconds by bytes: what small sizes cost, and large ones."""

from collections.abc import Mapping
from typing import NamedTuple

from hpml.allreduce.curves import Network
from hpml.modules.m08_case_studies.lecture.ring_crossover import crossover
from hpml.predict.collectives import Cost

Times = Mapping[int, float]


class OneCurve(NamedTuple):
    """`small` bytes take `more` times as long as the `first`, `large` `much` times as `before`."""

    held: bool
    first: int
    small: int
    more: float
    before: int
    large: int
    much: float


def latency_then_bandwidth(times: Times) -> OneCurve:
    """What a thousand times the bytes cost at the small end, four times at the large end."""
    by_size = sorted(times)
    first, before, large = by_size[0], by_size[-2], by_size[-1]
    small = max(n for n in by_size if n <= 1024 * first)
    more, much = times[small] / times[first], times[large] / times[before]
    held = more < small / first / 30 and much > 2
    return OneCurve(held, first, small, more, before, large, much)


class Winners(NamedTuple):
    """At `small` bytes the ring takes `quick` times as long as recursive doubling, at `large` that
    takes `slow` times as long as the ring, which is quicker from `sooner` bytes on.

    By the model both are equal at `equal` bytes with the network's α, and at `equal_at_work` with
    `alpha_at_work`, that of a message of the ring.
    """

    held: bool
    small: int
    large: int
    quick: float
    slow: float
    sooner: int
    equal: float
    alpha_at_work: float
    equal_at_work: float


def who_wins(network: Network, doubling: Times, ring: Times) -> Winners:
    """Recursive doubling at the small end, the ring at the large one.

    From 16 B for each rank on, so that a ring has all its messages.
    """
    both = [n for n in sorted(doubling) if n in ring and n >= 16 * network.ranks]
    small, large = both[0], both[-1]
    quick, slow = ring[small] / doubling[small], doubling[large] / ring[large]
    sooner = min((n for n in both if ring[n] < doubling[n]), default=large)
    # Ranks that share cores wake each other late, so a message costs more with all of them at work.
    alphas = network.within.alpha, ring[small] / (2 * (network.ranks - 1))
    equal, at_work = (crossover(network.ranks, Cost(a, network.within.beta)) for a in alphas)
    held = quick > 1 and slow > 1
    return Winners(held, small, large, quick, slow, sooner, equal, alphas[1], at_work)


class Languages(NamedTuple):
    """How many times as long as C Python takes, at `small` bytes and at `large`."""

    held: bool
    small: int
    large: int
    at_small: float
    at_large: float


def software_and_link(python: Times, c: Times, ranks: int) -> Languages:
    """One algorithm in two languages, at the small end and at the large one."""
    both = [n for n in sorted(python) if n in c and n >= 16 * ranks]
    small, large = (python[n] / c[n] for n in (both[0], both[-1]))
    return Languages(small > 1.3 * large, both[0], both[-1], small, large)
