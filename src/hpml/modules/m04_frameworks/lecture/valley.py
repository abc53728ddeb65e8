"""One loss of two weights, a narrow valley, and the paths of six optimizers down into it.

All begin at the same point, and get the gradient itself, without noise: what differs is the rule.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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


def fewest(found: Mapping[str, Path]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: who is at the bottom first, and who last."""
    known = {rule: path.steps for rule, path in found.items() if path.steps is not None}
    order = sorted(known, key=known.get)
    listed = ", ".join(f"{rule} {known[rule]}" for rule in order)
    return (
        len(known) == len(found) and (order[0], order[-1]) == ("Nesterov", "SGD"),
        f"**Answer.** Steps to the bottom: {listed}. The steep direction limits SGD's rate (beyond "
        f"2/{STEEP:.0f} it diverges), so it creeps along the flat one. Momentum adds up gradients "
        "that agree, to ten times one step. Adam and LARS divide each weight's step by the size of "
        "its gradient.",
        f"steps to the bottom: {listed or 'nobody got there'}. This version of PyTorch steps "
        "otherwise.",
    )


def overshooting(found: Mapping[str, Path]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: all but SGD go past the bottom."""
    beyond = {rule: path.overshoot for rule, path in found.items()}
    past = [rule for rule in beyond if beyond[rule] > NEAR]
    most = max(beyond, key=beyond.get)
    length = LOWEST[0] - START[0]
    return (
        past == [rule for rule in found if rule != "SGD"],
        f"All but SGD go past the bottom, {most} furthest: {beyond[most]:.1f} on a way of "
        f"{length:.0f}. What remembers earlier gradients goes on when the gradient has turned. SGD "
        "remembers nothing: it only jumps from side to side of the floor, in "
        f"{found['SGD'].crossings} of {STEPS} steps.",
        f"{', '.join(past) or 'nobody'} went past the bottom.",
    )


def turning(straight: Mapping[str, Path], turned: Mapping[str, Path]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes, of the same rules in a valley that is turned: only Adam
    needs more steps."""
    steps = {rule: (straight[rule].steps, turned[rule].steps) for rule in turned}
    alike = [rule for rule, (before, after) in steps.items() if before == after is not None]
    before, after = steps["Adam"]
    found = after or f"more than {len(turned['Adam'].points) - 1}"
    return (
        alike == [rule for rule in turned if rule != "Adam"]
        and before is not None
        and (after is None or after > 2 * before),
        f"**Answer.** {', '.join(alike)} take as many steps as before: they know the gradient as a "
        f"whole, not the axes. Adam takes {found} instead of {before}. It scales each weight by "
        "itself, which helps where steep and flat directions are weights. Here both weights have "
        "their share of the steep one.",
        "steps before and after turning: "
        + ", ".join(f"{rule} {a} and {b}" for rule, (a, b) in steps.items()),
    )
