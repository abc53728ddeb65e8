"""One loss of two weights, a narrow valley, and the paths of six optimizers down into it.

All begin at the same point, and get the gradient itself, without noise: what differs is the rule.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn

from hpml.frameworks.lars import LARS

STEEP = 90.0  # curvature of the loss along the second weight; along the first it is 1
LOWEST = (6.0, 2.0)
START = (1.0, 1.0)
STEPS = 200
NEAR = 0.1  # "at the bottom": neither weight is further than this from its lowest point
# The rates that were tried. In RATES each rule has the one with which it is at the bottom first.
TRIED = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
RATES = {"SGD": 0.02, "momentum": 0.02, "Nesterov": 0.01, "Adam": 0.2, "AdamW": 0.5, "LARS": 0.5}

Rule = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]
RULES: Mapping[str, Rule] = {
    "SGD": lambda params, lr: torch.optim.SGD(params, lr),
    "momentum": lambda params, lr: torch.optim.SGD(params, lr, momentum=0.9),
    "Nesterov": lambda params, lr: torch.optim.SGD(params, lr, momentum=0.9, nesterov=True),
    "Adam": lambda params, lr: torch.optim.Adam(params, lr),
    "AdamW": lambda params, lr: torch.optim.AdamW(params, lr),
    "LARS": lambda params, lr: LARS(params, lr, trust=0.01),
}


@dataclass(frozen=True)
class Path:
    """Where one rule went: `points` has the two weights at the start and after each step."""

    rule: str
    rate: float
    points: tuple[tuple[float, float], ...]

    @property
    def steps(self) -> int | None:
        """The number of steps after which it stays at the bottom; None if it does not."""
        away = [k for k, point in enumerate(self.points) if not _near(point)]
        after = away[-1] + 1 if away else 0
        return after if after < len(self.points) else None

    @property
    def overshoot(self) -> float:
        """How far the first weight went beyond its lowest point; 0 if it did not."""
        return max(0.0, *(first - LOWEST[0] for first, _ in self.points))

    @property
    def crossings(self) -> int:
        """How many steps went from one side of the valley's floor to the other."""
        sides = [second > LOWEST[1] for _, second in self.points if second != LOWEST[1]]
        return sum(a != b for a, b in pairwise(sides))


def valley(first: Any, second: Any) -> Any:
    """f(w₁, w₂) = ½ (w₁ − 6)² + 45 (w₂ − 2)², elementwise, of floats, arrays or tensors."""
    return (first - LOWEST[0]) ** 2 / 2 + STEEP * (second - LOWEST[1]) ** 2 / 2


def _near(point: tuple[float, float]) -> bool:
    return all(abs(at - low) <= NEAR for at, low in zip(point, LOWEST, strict=True))


def descend(
    rule: str, rate: float | None = None, steps: int = STEPS, *, degrees: float = 0.0
) -> Path:
    """The path of one of RULES, by default with its own rate. Each weight is a parameter (for
    LARS: a layer) of its own, in float64.

    The valley and the start may be turned around the lowest point, by `degrees`. The points of the
    path are always along and across the valley, as if it had not been turned.
    """
    rate = RATES[rule] if rate is None else rate
    weights = [
        nn.Parameter(torch.tensor(at, dtype=torch.float64)) for at in _turned(*START, degrees)
    ]
    optimizer = RULES[rule](weights, rate)
    points = [START]
    for _ in range(steps):
        optimizer.zero_grad()
        first, second = weights
        valley(*_turned(first, second, -degrees)).backward()
        optimizer.step()
        points.append(_turned(first.item(), second.item(), -degrees))
    return Path(rule, rate, tuple(points))


def _turned(first: Any, second: Any, degrees: float) -> tuple[Any, Any]:
    """A point turned around LOWEST."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    along, across = first - LOWEST[0], second - LOWEST[1]
    return (
        LOWEST[0] + cosine * along - sine * across,
        LOWEST[1] + sine * along + cosine * across,
    )


def paths() -> dict[str, Path]:
    """The path of each of RULES with its own rate, by name."""
    return {rule: descend(rule) for rule in RULES}


def steps_to_bottom(found: Mapping[str, Path]) -> dict[str, int]:
    """The steps of each rule that stays at the bottom, the fewest first."""
    known = {rule: path.steps for rule, path in found.items() if path.steps is not None}
    return dict(sorted(known.items(), key=lambda one: one[1]))


def past_the_bottom(found: Mapping[str, Path]) -> list[str]:
    """The rules that go beyond the lowest point, by more than NEAR."""
    return [rule for rule, path in found.items() if path.overshoot > NEAR]


class Turned(NamedTuple):
    """Steps in a valley before and after it is turned, by rule, None where it does not stay at the
    bottom; the rules that take as many as before. Held if only Adam needs more."""

    held: bool
    steps: Mapping[str, tuple[int | None, int | None]]
    alike: list[str]


def turning(straight: Mapping[str, Path], turned: Mapping[str, Path]) -> Turned:
    """The same rules in a valley and in one that is turned."""
    steps = {rule: (straight[rule].steps, turned[rule].steps) for rule in turned}
    alike = [rule for rule, (before, after) in steps.items() if before == after is not None]
    before, after = steps["Adam"]
    more = before is not None and (after is None or after > 2 * before)
    return Turned(more and alike == [rule for rule in turned if rule != "Adam"], steps, alike)
