"""The two constants of `hpml.predict.scaling`, from a few small runs, and how sure one can be.

Every pair of constants on a grid is held against the measured points, and gets the weight with
which it explains them. What is foretold is the mean step over all pairs, and its interval holds 90
in 100 of the weight: wide as long as the points leave open which constant it was. Nothing of the
magnitude of either is known beforehand, so every factor has the same weight (a scale parameter:
Jeffreys 1946, An invariant form for the prior probability in estimation problems).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

from hpml.predict.scaling import (
    Constants,
    Prediction,
    Step,
    Training,
    exposed_seconds,
    put_together,
)

RATES = tuple(0.02 ** (1 - step / 40) for step in range(41))  # 2 % of the nominal rate to all of it
STRAGGLING = tuple(0.001 * 500 ** (step / 40) for step in range(41))  # of compute: 0.1 % to half
NOISE = 0.03  # standard deviation of a published figure about such a model, over the figure
INTERVAL = 0.90


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

    def __contains__(self, images_per_s: float) -> bool:
        return self.low <= images_per_s <= self.high


@dataclass(frozen=True)
class Fitted:
    """A training, and the weight of each pair of constants given the points; they add up to 1."""

    training: Training
    points: tuple[Point, ...]
    weights: tuple[tuple[Constants, float], ...]

    def predict(self, ranks: int) -> Prediction:
        """The mean step over all constants, by weight."""
        steps = [(one.step, weight) for one, weight in self._foretold(ranks)]
        mean = {
            part: math.fsum(weight * getattr(step, part) for step, weight in steps)
            for part in ("compute", "exposed", "straggling", "input")
        }
        return Prediction(ranks, self.training.batch, Step(**mean))

    def interval(self, ranks: int, share: float = INTERVAL) -> Interval:
        """Where a measurement on `ranks` ranks lies with probability `share`, noise included."""
        tails = ((1 - share) / 2, (1 + share) / 2)
        likely = [(one.images_per_s, weight) for one, weight in self._foretold(ranks)]
        noisy = [
            (value * (1 + NOISE * deviation), weight)
            for value, weight in likely
            for deviation in _DEVIATIONS
        ]
        return Interval(*(_quantile(noisy, tail) for tail in tails))

    @cached_property
    def constants(self) -> Constants:
        """The median of each by weight: to be looked at; what is foretold rests on all."""
        rates = [(constants.rate, weight) for constants, weight in self.weights]
        straggling = [(constants.straggling, weight) for constants, weight in self.weights]
        return Constants(_quantile(rates, 0.5), _quantile(straggling, 0.5))

    def _foretold(self, ranks: int) -> list[tuple[Prediction, float]]:
        pairs, weights = zip(*self.weights, strict=True)
        return list(zip(_predictions(self.training, ranks, pairs), weights, strict=True))


_DEVIATIONS = tuple(NormalDist().inv_cdf((step + 0.5) / 15) for step in range(15))
LEAST = 1e-4  # pairs that weigh less than this, beside the heaviest, are left out


def fit(training: Training, points: Sequence[Point], rates: Sequence[float] = RATES) -> Fitted:
    """Weigh the constants by `points` of more than one rank; with none, all weigh the same.

    A point on one rank is what `training.images_per_s` stands for: it says nothing of the
    constants. Raises ValueError for images/s that are not above 0.
    """
    for point in points:
        if not (point.images_per_s > 0 and math.isfinite(point.images_per_s)):
            raise ValueError(f"{point.images_per_s} images/s on {point.ranks} ranks: not above 0")
    pairs = [Constants(rate, straggling) for rate in rates for straggling in STRAGGLING]
    misfit = [0.0] * len(pairs)
    for point in points:
        if point.ranks == 1:
            continue
        for number, one in enumerate(_predictions(training, point.ranks, pairs)):
            miss = math.log(point.images_per_s / one.images_per_s) / NOISE
            misfit[number] += miss * miss / 2
    least = min(misfit)
    weights = [math.exp(least - one) for one in misfit]
    kept = [(pair, w) for pair, w in zip(pairs, weights, strict=True) if w >= LEAST]
    total = math.fsum(weight for _, weight in kept)
    return Fitted(training, tuple(points), tuple((pair, w / total) for pair, w in kept))


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


def _predictions(training: Training, ranks: int, pairs: Sequence[Constants]) -> list[Prediction]:
    """As `predict`, for many constants: the exposed part is worked out once for each rate."""
    exposed = {
        rate: exposed_seconds(training, ranks, rate)
        for rate in dict.fromkeys(pair.rate for pair in pairs)
    }
    return [put_together(training, ranks, exposed[pair.rate], pair.straggling) for pair in pairs]


def _quantile(weighted: Sequence[tuple[float, float]], at: float) -> float:
    """The value below which the share `at` of all weight lies."""
    total = math.fsum(weight for _, weight in weighted)
    gone = 0.0
    for value, weight in sorted(weighted):
        gone += weight
        if gone >= at * total:
            return value
    return max(weighted)[0]
