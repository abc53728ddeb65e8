"""Micro-benchmarks of networks that never were: α and β are planted, so the fit can be judged.

A ring's all-reduce takes 2 (p-1) (α + n/p β). On that lies noise of three kinds:

- a size's own, either way and relative: where its buffers lie, which protocol the library takes;
- a repetition's delay, only ever more: what else runs on the machine;
- on a shared machine, a sixth of the sizes met another job: none of their repetitions is right.
"""

import math
import random
from dataclasses import dataclass
from functools import lru_cache

# 64 B, which give 16 ranks a float32 each, to 1 GiB: more than seven decades
SIZES = tuple(sorted([64 << k for k in range(25)] + [96 << k for k in range(24)]))
REPETITIONS = 10
QUIET, NOISY, SHARED = "quiet", "noisy", "shared"
NETWORKS = {QUIET: 6, NOISY: 32, SHARED: 12}
NOISE = {QUIET: 1e-5, NOISY: 0.027, SHARED: 0.02}  # of a size's seconds, standard deviation
DISTURBED = 8  # sizes of 49, the largest one and one of the two smallest among them
DELAYED = 0.5  # the part of the repetitions that something else delays
DELAY = 0.7  # its mean, over the seconds of the all-reduce
JITTER = 0.003  # at most, of a repetition that nothing delays
# Bytes at which messages take as long as bytes. Farther out there would be too few sizes on one
# side: the standard error of α or β would be more than a third of the tolerance.
HALF = (16e3, 4e6)


@dataclass(frozen=True)
class Network:
    """A planted network and its measurement: `seconds[k][r]`, size k, repetition r.

    `alpha` in seconds, `beta` in seconds per byte. `disturbed` are places in `SIZES`.
    """

    kind: str
    ranks: int
    alpha: float
    beta: float
    seconds: tuple[tuple[float, ...], ...]
    disturbed: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.kind} network of {self.ranks} ranks"


def ring_seconds(nbytes: float, ranks: int, alpha: float, beta: float) -> float:
    return 2 * (ranks - 1) * (alpha + nbytes / ranks * beta)


@lru_cache(maxsize=8)
def networks(seed: int) -> tuple[Network, ...]:
    """Fresh networks of each kind, α of 1 µs to 1 ms and 100 Mbit/s to 400 Gbit/s."""
    draw = random.Random(seed)
    return tuple(planted(draw, kind) for kind, count in NETWORKS.items() for _ in range(count))


def half_cases(seed: int) -> list[tuple[float, float, int]]:
    """(alpha, beta, ranks) of other networks, for `half_size`."""
    draw = random.Random(f"half {seed}")
    drawn = [_drawn(draw, QUIET) for _ in range(8)]
    return [(alpha, beta, ranks) for ranks, alpha, beta in drawn]


def planted(draw: random.Random, kind: str) -> Network:
    ranks, alpha, beta = _drawn(draw, kind)
    disturbed: tuple[int, ...] = ()
    if kind == SHARED:
        last = len(SIZES) - 1
        inner = draw.sample(range(2, last), DISTURBED - 2)
        disturbed = (draw.choice((0, 1)), *sorted(inner), last)
    seconds = []
    for place, nbytes in enumerate(SIZES):
        own = math.exp(draw.gauss(0, NOISE[kind]))
        undisturbed = own * ring_seconds(nbytes, ranks, alpha, beta)
        slower = 10 ** draw.uniform(0.15, 1) if place in disturbed else 1.0
        seconds.append(tuple(slower * undisturbed * factor for factor in _repeated(draw, kind)))
    return Network(kind, ranks, alpha, beta, tuple(seconds), disturbed)


def _drawn(draw: random.Random, kind: str) -> tuple[int, float, float]:
    """Ranks, α and β. Quiet networks have 4 ranks at least: for two, 2 (p-1)/p is 1."""
    while True:
        ranks = draw.choice((4, 8, 16) if kind == QUIET else (2, 4, 8, 16))
        alpha, beta = 10 ** draw.uniform(-6, -3), 8 / 10 ** draw.uniform(8, math.log10(4e11))
        if HALF[0] <= ranks * alpha / beta <= HALF[1]:
            return ranks, alpha, beta


def _repeated(draw: random.Random, kind: str) -> list[float]:
    """What the repetitions take, over the size's undisturbed seconds; one or more have no delay."""
    if kind == QUIET:
        return [1.0] * REPETITIONS
    delays = [
        draw.expovariate(1 / DELAY) if draw.random() < DELAYED else 0.0 for _ in range(REPETITIONS)
    ]
    delays[draw.randrange(REPETITIONS)] = 0.0
    return [1 + draw.uniform(0, JITTER) + delay for delay in delays]
