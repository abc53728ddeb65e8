"""Usual mistakes in fitting α and β: what each makes of the same measurement.

A judge compares an answer with them, to name the one that explains it. All return (α, β).
"""

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from hpml.modules.m08_case_studies.checks._fit_cases import SIZES, Network

Fitted = tuple[float, float]
# Seconds of each size -> seconds of the all-reduce without its bytes, and seconds per byte
Line = Callable[[np.ndarray], tuple[float, float]]

SIZE = np.array(SIZES, dtype=float)


def plain(seconds: np.ndarray) -> tuple[float, float]:
    """Least squares of the seconds themselves."""
    return weighted(seconds, np.ones_like(seconds))


def relative(seconds: np.ndarray) -> tuple[float, float]:
    """Least squares of the relative errors, disturbed sizes and all."""
    return weighted(seconds, 1 / seconds)


def weighted(seconds: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    largest = SIZE.max()  # bytes in its units, for the numerics
    design = np.stack([weights, SIZE / largest * weights], axis=1)
    (constant, slope), *_ = np.linalg.lstsq(design, seconds * weights, rcond=None)
    return float(constant), float(slope / largest)


def through_the_ends(seconds: np.ndarray) -> tuple[float, float]:
    slope = (seconds[-1] - seconds[0]) / (SIZE[-1] - SIZE[0])
    return float(seconds[0] - slope * SIZE[0]), float(slope)


def smallest_and_largest(seconds: np.ndarray) -> tuple[float, float]:
    """The smallest size's time as the one, the largest's time over its bytes as the other."""
    return float(seconds[0]), float(seconds[-1] / SIZE[-1])


def of_network(line: Line, of_repetitions: Callable[[Sequence[float]], float] = min):
    """The mistake as a function of a Network: with the ring's factors right."""

    def fitted(network: Network) -> Fitted:
        constant, slope = line(np.array([of_repetitions(one) for one in network.seconds]))
        steps = 2 * (network.ranks - 1)
        return constant / steps, slope * network.ranks / steps

    return fitted


def clipped(fitted: Callable[[Network], Fitted]) -> Callable[[Network], Fitted]:
    """What is negative becomes 0."""

    def clip(network: Network) -> Fitted:
        alpha, beta = fitted(network)
        return max(alpha, 0.0), max(beta, 0.0)

    return clip


def factor(alpha: Callable[[int], float], beta: Callable[[int], float]):
    """The right α and β times a wrong factor, a function of the number of ranks."""
    return lambda n: (n.alpha * alpha(n.ranks), n.beta * beta(n.ranks))


def one(ranks: int) -> float:
    return 1.0


def _steps(ranks: int) -> float:
    return 2 * (ranks - 1)


def _share(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


# By hint. For quiet networks: a wrong model, which an exact fit shows.
OF_THE_MODEL = (
    ("messages", factor(_steps, one)),
    ("messages", factor(_steps, _share)),
    ("bytes", factor(one, _share)),
    ("parts", factor(one, lambda ranks: 1 / ranks)),
    ("one_way", factor(lambda ranks: 2, lambda ranks: 2)),
    ("one_way", factor(lambda ranks: 2, one)),
    ("one_way", factor(one, lambda ranks: 2)),
    ("steps", factor(lambda ranks: (ranks - 1) / ranks, lambda ranks: (ranks - 1) / ranks)),
    ("steps", factor(lambda ranks: (ranks - 1) / ranks, one)),
    ("bits", factor(one, lambda ranks: 1 / 8)),
    ("bits", factor(one, lambda ranks: 8)),
    ("units", factor(lambda ranks: 1e6, one)),
    ("units", factor(lambda ranks: 1e6, lambda ranks: 1e9)),
    ("units", factor(lambda ranks: 1e6, lambda ranks: 1e6)),
    ("bandwidth", lambda network: (network.alpha, 1 / network.beta)),
    ("bandwidth", lambda network: (network.alpha, 8 / network.beta)),
    ("order", lambda network: (network.beta, network.alpha)),
    ("weights", of_network(plain)),
    ("weights", clipped(of_network(plain))),
    ("two_points", of_network(smallest_and_largest)),
)
# Where only β is that of a usual mistake: plain least squares besides leaves no α to go by
OF_BETA = (
    ("bytes", factor(one, _share)),
    ("parts", factor(one, lambda ranks: 1 / ranks)),
    ("one_way", factor(one, lambda ranks: 2)),
    ("steps", factor(one, lambda ranks: (ranks - 1) / ranks)),
    ("bits", factor(one, lambda ranks: 1 / 8)),
    ("bits", factor(one, lambda ranks: 8)),
)
# For the others: a wrong fit
OF_THE_FIT = (
    ("weights", of_network(plain)),
    ("weights", clipped(of_network(plain))),
    ("two_points", of_network(through_the_ends)),
    ("two_points", of_network(smallest_and_largest)),
    *(
        (key, of_network(line, of))
        for key, line in (
            ("weights", plain),
            ("quickest", relative),
            ("two_points", through_the_ends),
        )
        for of in (statistics.fmean, statistics.median)
    ),
)
# For shared networks besides: right for noise, and no more
OF_THE_DISTURBED = (*OF_THE_FIT, ("disturbed", of_network(relative)))
