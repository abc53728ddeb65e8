"""How often a job is interrupted, by the number of its GPUs.

Each GPU, with its part of the machine, is taken to fail equally often, at any time, and
independently of the others. Then interruptions of a job of p GPUs are a Poisson process, and its
rate grows as p.
"""

from dataclasses import dataclass
from math import exp


@dataclass(frozen=True)
class Run:
    """A job that was interrupted unexpectedly `interruptions` times, on `gpus`, within `days`."""

    gpus: int
    days: float
    interruptions: int

    def hours_between(self, gpus: int) -> float:
        """Mean hours between two interruptions of a job on `gpus` of the same machine."""
        return self.days * 24 / self.interruptions * self.gpus / gpus

    def undisturbed(self, hours: float, gpus: int) -> float:
        """The probability that `hours` pass on `gpus` without an interruption."""
        return exp(-hours / self.hours_between(gpus))
