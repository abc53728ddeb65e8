"""The values that Horovod's autotuner tries, from the log that it writes.

HOROVOD_AUTOTUNE and HOROVOD_AUTOTUNE_LOG: https://horovod.readthedocs.io/en/stable/autotune.html
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from hpml.ranks import launch

TENSORS, LENGTH = 50, 4_000  # float32: 16 kB each
COLUMNS = ("cycle_time_ms", "tensor_fusion_threshold", "score")
STEP_BYTES = 4 * TENSORS * LENGTH
MARGIN = 1.1  # times the score: less is not a gain, for one measurement of fifty steps


def tried(steps: int = 460) -> str:
    """A log, as Horovod writes it, of two ranks that average 50 tensors of 16 kB, over 1 Gbit/s.

    Cycle times are in ms, thresholds in MB, scores in bytes per microsecond. Takes 50 steps for
    each line, after 150 to warm up.
    """
    with tempfile.TemporaryDirectory(prefix="hpml-autotune-") as folder:
        log = Path(folder) / "log.csv"
        settings = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(log)}
        launch(
            partial(_average, steps),
            2,
            flavour="horovod",
            link="1gbit",
            environment=lambda rank: settings,
            timeout=300,
        )
        return log.read_text()


def by_default(steps: int = 60) -> float:
    """The score of Horovod's defaults, a cycle of 1 ms and 128 MB: bytes per microsecond of the
    same steps, after ten to warm up, counted here as the log counts them."""
    evidence = launch(partial(_average, steps), 2, flavour="horovod", link="1gbit", timeout=300)
    return STEP_BYTES / 1e6 / statistics.median(evidence.values[0][10:])


def table(log: str, default: float) -> str:
    """The last three columns of a log, as text, and a row for the score of the defaults."""
    rows = [line.split(",")[-len(COLUMNS) :] for line in log.splitlines()]
    rows.append(["1", "128", f"{default:.4f}"])
    marks = ["", *[""] * (len(rows) - 2), "  the defaults"]
    return "\n".join(
        "{:>14} {:>24} {:>8}".format(*row) + mark for row, mark in zip(rows, marks, strict=True)
    )


class Found(NamedTuple):
    """The best of the points that were tried, and the worst score. Scores as in the log."""

    points: int
    cycle: float
    threshold: float
    best: float
    worst: float
    default: float

    @property
    def held(self) -> bool:
        """Whether the settings make a difference."""
        return self.best > MARGIN * self.worst

    @property
    def beats(self) -> bool:
        """Whether the best of them is better than the defaults."""
        return self.best > MARGIN * self.default

    @property
    def beaten(self) -> bool:
        """Whether the defaults are better than the best of them."""
        return self.default > MARGIN * self.best


def found(log: str, default: float) -> Found:
    """What was tried, from a log, beside the score of the defaults."""
    rows = [tuple(map(float, line.split(",")[-3:])) for line in log.splitlines()[1:]]
    cycle, threshold, best = max(rows, key=lambda row: row[2])
    worst = min(score for *_, score in rows)
    return Found(len(rows), cycle, threshold, best, worst, default)


def _average(steps: int) -> list[float]:
    """On a rank: seconds of each step."""
    import time

    import horovod.torch as hvd

    gradients = [torch.ones(LENGTH) for _ in range(TENSORS)]
    taken = []
    for _ in range(steps):
        began = time.perf_counter()
        handles = [hvd.allreduce_async_(g, name=f"gradient {n}") for n, g in enumerate(gradients)]
        for handle in handles:
            hvd.synchronize(handle)
        taken.append(time.perf_counter() - began)
    hvd.shutdown()  # the log is written to its end
    return taken
