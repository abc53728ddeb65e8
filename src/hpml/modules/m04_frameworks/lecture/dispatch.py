"""What calling an operator costs, whatever it computes: Python, dispatcher, autograd, kernel.

`torch.add` into a tensor that is there, float32, on one thread. Each time is the least of many
rounds, in which all sizes or ways take turns, so that another program's burst hits one round only.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from matplotlib.figure import Figure

from hpml.measure.clock import with_threads
from hpml.trace.layout import PALETTE

SIZES = tuple(4**k for k in range(12))  # elements: 1 to 4 million
ROUNDS = 15
ROUND = 2e-3  # seconds of one size in one round
PRICE_CALLS = 400  # of each way in one round


@dataclass(frozen=True)
class Curve:
    """Seconds of one call, by the number of elements, which increases."""

    seconds: dict[int, float]

    @property
    def price(self) -> float:
        """Seconds of a call that has next to nothing to compute."""
        return min(self.seconds.values())

    @property
    def knee(self) -> float:
        """The number of elements at which a call takes twice its price; infinite if none does.

        Between two sizes the time is taken as a straight line.
        """
        points = list(self.seconds.items())
        for (less, before), (more, after) in pairwise(points):
            if before <= 2 * self.price < after:
                return less + (more - less) * (2 * self.price - before) / (after - before)
        return float("inf")

    @property
    def flat_then_steep(self) -> bool:
        """Whether 16 elements take about as long as the fewest, and the most far longer."""
        sizes = list(self.seconds)
        smallest, largest = sizes[0], sizes[-1]
        sixteen = min(sizes, key=lambda size: abs(size - 16))
        return (
            self.seconds[sixteen] < 1.5 * self.seconds[smallest]
            and self.seconds[largest] > 20 * self.price
            and self.knee < largest
        )


def add_curve(sizes: Sequence[int] = SIZES, *, rounds: int = ROUNDS) -> Curve:
    """Times of `torch.add(x, y, out=z)` for tensors of each of `sizes` elements."""
    with with_threads(1), torch.no_grad():
        tensors = {size: [torch.ones(size) for _ in range(3)] for size in sizes}
        calls = {size: 1 for size in sizes}
        best = {size: float("inf") for size in sizes}
        for _ in range(rounds + 1):  # the first one only finds out how often to call
            for size, (x, y, z) in tensors.items():
                started = time.perf_counter()
                for _ in range(calls[size]):
                    torch.add(x, y, out=z)
                seconds = (time.perf_counter() - started) / calls[size]
                best[size] = min(best[size], seconds)
                calls[size] = max(1, min(1000, int(ROUND / best[size])))
    return Curve(best)


def prices(*, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of one call on one element, by what the call goes through; later rows go further."""
    x, y = torch.ones(1), torch.ones(1)
    weight = torch.ones(1, requires_grad=True)
    with torch.inference_mode():
        a, b = torch.ones(1), torch.ones(1)

    def bare() -> None:
        with torch.inference_mode():
            _repeat(lambda: a + b)

    ways: dict[str, Callable[[], None]] = {
        "a Python function that does nothing": lambda: _repeat(_nothing),
        "x.dim(): into C++ and back": lambda: _repeat(x.dim),
        "x + y in inference mode: dispatcher and kernel": bare,
        "x + y: looks whether autograd needs it": lambda: _repeat(lambda: x + y),
        "weight + y: recorded for backward": lambda: _repeat(lambda: weight + y),
    }
    best = dict.fromkeys(ways, float("inf"))
    with with_threads(1):
        for _ in range(rounds):
            for name, way in ways.items():
                started = time.perf_counter()
                way()
                best[name] = min(best[name], (time.perf_counter() - started) / PRICE_CALLS)
    return best


def price_table(found: Mapping[str, float]) -> str:
    """A row for each way, in microseconds."""
    width = max(map(len, found))
    return "\n".join(f"{name:{width}}  {1e6 * price:5.2f} µs" for name, price in found.items())


def curve_picture(curve: Curve, *, title: str) -> Figure:
    """The curve on two logarithmic axes, with its price as a line and its knee marked."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    micros = [1e6 * seconds for seconds in curve.seconds.values()]
    axes.loglog(list(curve.seconds), micros, "-o", color=PALETTE[5], label="torch.add, one thread")
    axes.axhline(1e6 * curve.price, color=PALETTE[6], linestyle="--", label="price of a call")
    if curve.knee < max(curve.seconds):
        axes.axvline(curve.knee, color="black", linestyle=":", label="knee: twice the price")
    axes.set_xlabel("elements (float32)")
    axes.set_ylabel("time of one call (µs)")
    axes.grid(alpha=0.3)
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(fontsize=8)
    return figure


def _nothing() -> None:
    pass


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(PRICE_CALLS):
        call()
