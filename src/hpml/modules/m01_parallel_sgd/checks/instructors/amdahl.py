"""The plays of amdahl: the laws, and what usual mistakes make of them."""

import random
from collections.abc import Callable
from typing import Any

from hpml.predict.amdahl import Amdahl

Formula = Callable[[float, int], float]


def amdahl(serial: float, ranks: int) -> float:
    """1 / (s + (1-s)/p): Amdahl 1967, Validity of the single processor approach."""
    return _speedup(Amdahl(serial, 1 - serial), ranks)


def gustafson(serial: float, ranks: int) -> float:
    """s + (1-s) p: Gustafson 1988, Reevaluating Amdahl's law."""
    return _speedup(Amdahl(serial, ranks * (1 - serial)), ranks)


def karp_flatt(speedup: float, ranks: int) -> float:
    """(1/S - 1/p) / (1 - 1/p): Karp and Flatt 1990, Measuring parallel processor performance."""
    return (ranks / speedup - 1) / (ranks - 1)


def _speedup(work: Amdahl, ranks: int) -> float:
    return work.seconds(1) / work.seconds(ranks)


RIGHT: dict[str, Formula] = {
    "strong_speedup": amdahl,
    "weak_speedup": gustafson,
    "efficiency": lambda speedup, ranks: speedup / ranks,
    "serial_fraction": karp_flatt,
}
# Usual mistakes, each with the key of its hint
MISTAKES: dict[str, list[tuple[str, Formula]]] = {
    "strong_speedup": [
        ("swapped", lambda s, p: amdahl(1 - s, p)),
        ("grows", gustafson),
        ("seconds", lambda s, p: s + (1 - s) / p),
        ("rounded", lambda s, p: round(amdahl(s, p))),
    ],
    "weak_speedup": [
        ("swapped", lambda s, p: gustafson(1 - s, p)),
        ("stays", amdahl),
        ("per_rank", lambda s, p: gustafson(s, p) / p),
        ("rounded", lambda s, p: round(gustafson(s, p))),
    ],
    "efficiency": [
        ("percent", lambda speedup, p: 100 * speedup / p),
        ("of_all", lambda speedup, p: speedup),
        ("inverse", lambda speedup, p: p / speedup),
    ],
    "serial_fraction": [
        ("no_serial", lambda speedup, p: 1 / speedup - 1 / p),
        ("weak_estimate", lambda speedup, p: (p - speedup) / (p - 1)),
        ("parallel_share", lambda speedup, p: 1 - karp_flatt(speedup, p)),
        ("clamped", lambda speedup, p: max(0.0, karp_flatt(speedup, p))),
        ("clamped", lambda speedup, p: min(1.0, karp_flatt(speedup, p))),
        ("clamped", lambda speedup, p: min(1.0, max(0.0, karp_flatt(speedup, p)))),
    ],
}


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """The arguments of each function's calls: (fraction or speed-up, ranks), in lists."""
    draw = random.Random(seed)
    # None is near 1/2, where the serial and the parallel fraction are equal.
    fractions = [draw.uniform(0.01, 0.1), draw.uniform(0.2, 0.4), draw.uniform(0.6, 0.9)]
    ranks = [draw.randint(2, 8), draw.randint(9, 64), draw.randint(65, 1024)]
    scaled = [[s, p] for s in fractions for p in ranks]
    ends = [[0.0, ranks[1]], [1.0, ranks[1]], [fractions[1], 1]]
    measured = [[p * draw.uniform(0.3, 0.9), p] for p in ranks]
    superlinear = [[p * draw.uniform(1.05, 1.3), p] for p in ranks[:2]]
    slower = [[draw.uniform(0.5, 0.9), ranks[1]]]
    fewest = [[draw.uniform(1.2, 1.8), 2]]
    return [
        {
            "strong_speedup": scaled + ends,
            "weak_speedup": scaled + ends,
            "efficiency": measured + superlinear + [[1.0, 1]],
            "serial_fraction": [
                *(measured + superlinear + slower + fewest),
                *([float(ranks[0]), ranks[0]], [1.0, 5]),
            ],
        }
    ]


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """By function: its values, and (hint, the values of a usual mistake)."""
    return {
        name: {
            "right": [RIGHT[name](*call) for call in calls],
            "mistakes": [
                (hint, [formula(*call) for call in calls]) for hint, formula in MISTAKES[name]
            ],
        }
        for name, calls in inputs[0].items()
    }
