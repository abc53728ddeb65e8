"""Strong scaling: Amdahl's model of the time on p ranks, fitted to measurements."""

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
        """Seconds of the same work on `ranks` ranks (strong scaling)."""
        return self.serial + self.parallel / ranks

    @property
    def serial_fraction(self) -> float:
        """The serial share of the time that one rank takes."""
        return self.serial / (self.serial + self.parallel)


def fit_amdahl(ranks: Sequence[int], seconds: Sequence[float]) -> Amdahl:
    """Fit the model to `seconds` on `ranks`: least squares of relative errors, no part below 0.

    Raises ValueError for fewer than two different numbers of ranks, from which the two parts cannot
    be separated.
    """
    if len(set(ranks)) < 2:
        raise ValueError(f"fit_amdahl: measured on {list(ranks)} ranks: two numbers are needed")
    counts, times = np.asarray(ranks, float), np.asarray(seconds, float)
    terms = np.stack([np.ones_like(counts), 1 / counts], axis=1) / times[:, None]
    serial, parallel = np.linalg.lstsq(terms, np.ones_like(times), rcond=None)[0]
    if serial < 0:
        return Amdahl(0.0, float(_one_part(terms[:, 1])))
    if parallel < 0:
        return Amdahl(float(_one_part(terms[:, 0])), 0.0)
    return Amdahl(float(serial), float(parallel))


def _one_part(term: np.ndarray) -> float:
    """The factor that brings `term` nearest to 1."""
    return term.sum() / (term @ term)
