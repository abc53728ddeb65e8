"""The two constants of `hpml.predict.scaling`, from a few small runs, and how sure one can be.

Every pair of constants on a grid is held against the measured points, and gets the weight with
which it explains them. What is predicted is the mean step over all pairs, and its interval holds 90
in 100 of the weight: wide as long as the points leave open which constant it was. Nothing of the
magnitude of either is known beforehand, so every factor has the same weight (a scale parameter:
Jeffreys 1946, An invariant form for the prior probability in estimation problems).

The model itself is doubtful too, the more the further it predicts: DRIFT. It was chosen as the
smallest for which 90 in 100 of the 185 predicted rows of all published tables are in their
interval. Up to 2, 4 and 8 times the largest fitted size that are 89, 95 and 90 % of the rows, and
beyond it 11 of 14; chosen without the source that it is counted on, 88, 95, 90 % and 12 of 14.
Without DRIFT that is 86, 80, 70 % and 10 of 14. NOISE = 0.05 in its place comes to 92, 93, 90 % and
10 of 14, but predicts less well: it is 3.2 % off in the median, not 2.8 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from hpml.predict.scaling import (
    Constants,
    Prediction,
    Step,
    Training,
    exposed_seconds,
    loading_seconds,
    predict,
    straggling_seconds,
)

RATES = tuple(0.02 ** (1 - step / 40) for step in range(41))  # 2 % of the nominal rate to all of it
STRAGGLING = tuple(0.001 * 500 ** (step / 40) for step in range(41))  # of compute: 0.1 % to half
NOISE = 0.03  # standard deviation of a published figure about such a model, over the figure
DRIFT = 0.02  # what is added to it for each doubling beyond the largest point
INTERVAL = 0.90
MISSED = 3 * NOISE  # of a point: the model and it do not agree


@dataclass(frozen=True)
class Point:
    """Images/s measured on all `ranks` together."""

    ranks: int
    images_per_s: float


@dataclass(frozen=True)
class Interval:
    """Images/s: with 90 in 100, a measurement lies between."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"between {self.low:,.0f} and {self.high:,.0f}"

    def __contains__(self, images_per_s: float) -> bool:
        return self.low <= images_per_s <= self.high


@dataclass(frozen=True, eq=False)
class Fitted:
    """A training, and the weight of each pair of constants given the points.

    `weights` has a row for each of `rates` and a column for each of STRAGGLING, and adds up to 1.
    With `typical` (see `pooled`) these constants predict, and the weights give the interval alone.
    """

    training: Training
    points: tuple[Point, ...]
    rates: tuple[float, ...]
    weights: np.ndarray
    typical: Constants | None = None

    def predict(self, ranks: int) -> Prediction:
        """The mean step over all constants, by weight."""
        if self.typical is not None:
            return predict(self.training, ranks, self.typical)
        parts = vars(_steps(self.training, ranks, self.rates))
        mean = {name: float(np.sum(self.weights * part)) for name, part in parts.items()}
        return Prediction(ranks, self.training.on(ranks).batch, Step(**mean))

    def interval(self, ranks: int, share: float = INTERVAL) -> Interval:
        """Where a measurement on `ranks` ranks lies with probability `share`, noise included."""
        likely = _images_per_s(self.training, ranks, self.rates)
        largest = max((point.ranks for point in self.points), default=ranks)
        doubt = NOISE + DRIFT * max(0.0, math.log2(ranks / largest))
        noisy = np.multiply.outer(likely, 1 + doubt * _DEVIATIONS)
        weights = np.multiply.outer(self.weights, np.full_like(_DEVIATIONS, 1 / len(_DEVIATIONS)))
        tails = ((1 - share) / 2, (1 + share) / 2)
        return Interval(*(_quantile(noisy, weights, tail) for tail in tails))

    def missed(self) -> list[Point]:
        """The points of several ranks that it does not meet, by more than MISSED."""
        return [
            point
            for point in self.points
            if point.ranks > 1
            and abs(self.predict(point.ranks).images_per_s / point.images_per_s - 1) > MISSED
        ]

    @property
    def constants(self) -> Constants:
        """The median of each by weight: to be looked at; what is predicted rests on all."""
        return Constants(
            _quantile(np.array(self.rates), self.weights.sum(1), 0.5),
            _quantile(np.array(STRAGGLING), self.weights.sum(0), 0.5),
        )


_DEVIATIONS = np.array([NormalDist().inv_cdf((step + 0.5) / 15) for step in range(15)])


def fit(
    training: Training,
    points: Sequence[Point],
    rates: tuple[float, ...] = RATES,
    prior: np.ndarray | None = None,
) -> Fitted:
    """Weigh the constants by `points` of more than one rank; with none, all weigh the same.

    A point on one rank is what `training.images_per_s` stands for: it says nothing of the
    constants. `prior`: what they weigh before any point is seen, each above 0. Raises ValueError
    for images/s that are not above 0.
    """
    misfit = np.zeros((len(rates), len(STRAGGLING)))
    for point in points:
        if not (point.images_per_s > 0 and math.isfinite(point.images_per_s)):
            raise ValueError(f"{point.images_per_s} images/s on {point.ranks} ranks: not above 0")
        if point.ranks > 1:
            predicted = _images_per_s(training, point.ranks, rates)
            misfit += (np.log(point.images_per_s / predicted) / NOISE) ** 2 / 2
    if prior is not None:
        misfit -= np.log(prior)
    weights = np.exp(misfit.min() - misfit)
    return Fitted(training, tuple(points), rates, weights / weights.sum())


def fit_without_one(training: Training, points: Sequence[Point]) -> Fitted:
    """`fit` where nobody measured one rank: two constants still, images/s of one rank and
    straggling, on a network with its nominal rate.

    `training.images_per_s` is replaced by what lets the point with the fewest ranks be met.
    """
    first = min(points, key=lambda point: point.ranks)
    fitted = fit(training, points, (1.0,))
    for _ in range(10):  # to a fixed point: little is lost on few ranks
        met = fitted.predict(first.ranks).images_per_s / first.images_per_s
        guess = replace(fitted.training, images_per_s=fitted.training.images_per_s / met)
        fitted = fit(guess, points, (1.0,))
    return fitted


def pooled(fits: Sequence[Fitted], training: Training) -> Fitted:
    """`training` with the constants of several fits, each with the same weight.

    Different clusters differ by so much that the mean step would be that of the slowest: the median
    of each constant is typical of them.
    """
    total: Any = sum(one.weights for one in fits)
    together = Fitted(training, (), fits[0].rates, total / len(fits))
    return replace(together, typical=together.constants)


@dataclass(frozen=True, eq=False)
class _Steps:
    """The parts of a step for each pair of constants: arrays that fit each other's shapes."""

    compute: np.ndarray
    exposed: np.ndarray
    straggling: np.ndarray
    input: np.ndarray

    @property
    def seconds(self) -> np.ndarray:
        return self.compute + self.exposed + self.straggling + self.input


def _images_per_s(training: Training, ranks: int, rates: tuple[float, ...]) -> np.ndarray:
    """For each pair of constants, of all ranks."""
    return ranks * training.on(ranks).batch / _steps(training, ranks, rates).seconds


@cache
def _steps(training: Training, ranks: int, rates: tuple[float, ...]) -> _Steps:
    training = training.on(ranks)
    exposed = np.array([[exposed_seconds(training, ranks, rate)] for rate in rates])
    behind = np.array([[straggling_seconds(training, ranks, one) for one in STRAGGLING]])
    rest = training.compute + exposed + behind
    waiting = np.maximum(0.0, loading_seconds(training, ranks) - rest)
    return _Steps(np.array(training.compute), exposed, behind, waiting)


def _quantile(values: np.ndarray, weights: np.ndarray, at: float) -> float:
    """The value below which the share `at` of all weight lies."""
    order = np.argsort(values, axis=None)
    gone = np.cumsum(weights.ravel()[order])
    return float(values.ravel()[order][np.searchsorted(gone, at * gone[-1])])
