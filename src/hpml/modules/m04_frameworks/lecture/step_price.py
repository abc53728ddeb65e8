"""What the operators of a training step cost before any of them computes: at batch 1 and at 256.

Twice: as their number times the price of an addition, and measured, by a network of the same
operators that has next to nothing to compute.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from hpml.measure.clock import with_threads
from hpml.models import ResidualNetwork
from hpml.modules.m04_frameworks.lecture import operators_run
from hpml.modules.m04_frameworks.lecture.dispatch import prices

WIDTHS = (64, 256, 256)  # of the course's network
THIN = (4, 4, 4)
PIXELS, FEW_PIXELS = 32, 24  # 24: at 16 the last stage has one value for each channel
BATCHES = (1, 256)


@dataclass(frozen=True)
class StepPrice:
    """Seconds of the quickest step, one thread.

    `operators` are those of one step; `price` is the time of one that adds two numbers and is
    recorded. `thin` is a step of the thin network, `steps` those of the course's, by batch size.
    """

    operators: int
    price: float
    thin: float
    steps: dict[int, float]

    def share(self, batch: int) -> float:
        """The part of a step that the thin network's step is."""
        return self.thin / self.steps[batch]

    @property
    def is_fixed(self) -> bool:
        """Whether a step costs more than its additions would, little of it with one image, and far
        less with many."""
        one, many = (self.share(batch) for batch in BATCHES)
        return self.operators * self.price < self.thin and one < 0.25 and many < 0.1 * one

    def __str__(self) -> str:
        rows = [("operators of a step", f"{self.operators}")]
        rows.append(("price of an addition", f"{1e6 * self.price:.1f} µs"))
        rows.append(("  times their number", f"{1e3 * self.operators * self.price:.2f} ms"))
        rows.append(("step of the thin network", f"{1e3 * self.thin:.2f} ms"))
        rows += [
            (f"step at batch {batch}", f"{1e3 * seconds:,.1f} ms")
            for batch, seconds in self.steps.items()
        ]
        return "\n".join(f"{name:26}{value:>12}" for name, value in rows)


def measure() -> StepPrice:
    """Measure it: some seconds, most of them for the steps of 256 images."""
    with with_threads(1):
        thin = _Training(THIN, 1, FEW_PIXELS)
        course = {batch: _Training(WIDTHS, batch, PIXELS) for batch in BATCHES}
        few = {batch: 1 if batch > 16 else 20 for batch in BATCHES}
        steps = {batch: training.quickest(few[batch]) for batch, training in course.items()}
        return StepPrice(operators(1), list(prices().values())[-1], thin.quickest(100), steps)


def operators(batch: int) -> int:
    """How many operators a step of the course's network runs with a batch of that many images."""
    return len(operators_run.recorded(_Training(WIDTHS, batch, PIXELS).step))


class _Training:
    """A network, a batch of random images, and SGD with momentum."""

    def __init__(self, widths: tuple[int, ...], batch: int, pixels: int):
        self.model = ResidualNetwork(widths=widths).to(memory_format=torch.channels_last)
        images = torch.randn(batch, 3, pixels, pixels)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels: Tensor = torch.randint(0, 10, (batch,))
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=0.01, momentum=0.9)
        self.step()  # the first one allocates

    def step(self) -> None:
        cross_entropy(self.model(self.images), self.labels).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def quickest(self, steps: int) -> float:
        best = float("inf")
        for _ in range(steps):
            started = time.perf_counter()
            self.step()
            best = min(best, time.perf_counter() - started)
        return best
