"""What four all-reduces cost, as the answer's functions should have it, and as people write it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from hpml.predict.collectives import Cost, all_reduce_seconds

TOLERANCE = 1e-9  # of the value; the formulas have a few operations
ALGORITHMS = {  # by the answer's function
    "naive_seconds": "naive",
    "tree_seconds": "tree",
    "ring_seconds": "ring",
    "halving_doubling_seconds": "halving-doubling",
}

Formula = Callable[[int, int, float, float], float]


def right(name: str) -> Formula:
    """What the answer's function `name` should give."""
    return lambda n, p, a, b: all_reduce_seconds(ALGORITHMS[name], n, p, Cost(a, b))


def levels(ranks: int) -> int:
    """⌈log₂ p⌉, of a tree."""
    return (ranks - 1).bit_length()


# What people write instead, and the hint for it
MISTAKES: dict[str, dict[str, Formula]] = {
    "naive_seconds": {
        "one_way": lambda n, p, a, b: (p - 1) * (a + n * b),
        "latency_once": lambda n, p, a, b: (a + 2 * (p - 1) * n * b) * (p > 1),
        "latency_each_way": lambda n, p, a, b: 2 * (a + (p - 1) * n * b) * (p > 1),
        "at_once": lambda n, p, a, b: 2 * (a + n * b) * (p > 1),
        "with_itself": lambda n, p, a, b: 2 * p * (a + n * b),
        "no_latency": lambda n, p, a, b: 2 * (p - 1) * n * b,
    },
    "tree_seconds": {
        "one_way": lambda n, p, a, b: levels(p) * (a + n * b),
        "latency_once": lambda n, p, a, b: (a + 2 * levels(p) * n * b) * (p > 1),
        "latency_each_way": lambda n, p, a, b: 2 * (a + levels(p) * n * b) * (p > 1),
        "rounded_off": lambda n, p, a, b: 2 * (p.bit_length() - 1) * (a + n * b),
        "not_rounded": lambda n, p, a, b: 2 * math.log2(p) * (a + n * b),
        "every_message": lambda n, p, a, b: 2 * (p - 1) * (a + n * b),
        "no_latency": lambda n, p, a, b: 2 * levels(p) * n * b,
    },
    "ring_seconds": {
        "one_way": lambda n, p, a, b: (p - 1) * (a + n / p * b),
        "latency_once": lambda n, p, a, b: (a + 2 * (p - 1) / p * n * b) * (p > 1),
        "latency_each_way": lambda n, p, a, b: 2 * (a + (p - 1) / p * n * b) * (p > 1),
        "whole": lambda n, p, a, b: 2 * (p - 1) * (a + n * b),
        "with_itself": lambda n, p, a, b: 2 * p * (a + n / p * b),
        "no_latency": lambda n, p, a, b: 2 * (p - 1) / p * n * b,
    },
    "halving_doubling_seconds": {
        "one_way": lambda n, p, a, b: levels(p) * a + (p - 1) / p * n * b,
        "latency_once": lambda n, p, a, b: (a + 2 * (p - 1) / p * n * b) * (p > 1),
        "latency_each_way": lambda n, p, a, b: 2 * (a + (p - 1) / p * n * b) * (p > 1),
        "whole": lambda n, p, a, b: 2 * levels(p) * (a + n * b),
        "whole_once": lambda n, p, a, b: levels(p) * (a + n * b),
        "always_half": lambda n, p, a, b: 2 * levels(p) * (a + n / 2 * b),
        "as_a_ring": lambda n, p, a, b: 2 * (p - 1) * (a + n / p * b),
        "no_latency": lambda n, p, a, b: 2 * (p - 1) / p * n * b,
    },
}
# Of all four: what they make of the right formula
EVERYWHERE: dict[str, Callable[[Formula], Formula]] = {
    "bits": lambda of: lambda n, p, a, b: of(n, p, a, 8 * b),
    "bandwidth": lambda of: lambda n, p, a, b: of(n, p, a, 1 / b),
}
SHARED_HINTS = {"whole_once": "whole"}


def close(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=TOLERANCE, abs_tol=1e-15)


def misconception(name: str, calls: Sequence[Sequence[Any]], got: Sequence[float]) -> str:
    """The hint for the first usual mistake that explains all that was returned."""
    mistakes = MISTAKES[name] | {hint: make(right(name)) for hint, make in EVERYWHERE.items()}
    for hint, formula in mistakes.items():
        if all(close(g, formula(*call)) for g, call in zip(got, calls, strict=True)):
            return SHARED_HINTS.get(hint, hint)
    return name
