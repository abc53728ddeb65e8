"""How long p ranks take for what one rank did alone: Amdahl's model, fitted to measurements."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Amdahl:
    """Work of which `parallel` seconds can be shared out among ranks and `serial` seconds cannot.

    Amdahl 1967, Validity of the single processor approach to achieving large scale computing
    capabilities: the serial part bounds the speed-up, whatever the number of ranks.
    """

    serial: float
    parallel: float

    def seconds(self, ranks: float) -> float:
        """Of the same work on `ranks` ranks (strong scaling)."""
        return self.serial + self.parallel / ranks

    @property
    def serial_fraction(self) -> float:
        """Of the time that one rank takes."""
        return self.serial / (self.serial + self.parallel)


def fit_amdahl(ranks: Sequence[int], seconds: Sequence[float]) -> Amdahl:
    """The model that comes nearest to `seconds`, by numbers of ranks, relative to each of them.

    Least squares; neither part is less than 0. Raises ValueError for fewer than two numbers of
    ranks, from which the parts cannot be told apart.
    """
    if len(set(ranks)) < 2:
        raise ValueError(f"fit_amdahl: measured on {list(ranks)} ranks: two numbers are needed")
    counts, times = np.asarray(ranks, float), np.asarray(seconds, float)
    terms = np.stack([np.ones_like(counts), 1 / counts], axis=1) / times[:, None]
    serial, parallel = np.linalg.lstsq(terms, np.ones_like(times), rcond=None)[0]
    if serial < 0:
        return Amdahl(0.0, float(_alone(terms[:, 1])))
    if parallel < 0:
        return Amdahl(float(_alone(terms[:, 0])), 0.0)
    return Amdahl(float(serial), float(parallel))


def _alone(term: np.ndarray) -> float:
    """The factor that brings `term` nearest to 1."""
    return term.sum() / (term @ term)
