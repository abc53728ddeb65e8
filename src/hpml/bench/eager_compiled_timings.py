"""What was timed, eager against compiled: its lines, its table, and when compiling has paid."""

import csv
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EAGER, COMPILED, GRAPHS = "eager", "torch.compile", 'torch.compile, "reduce-overhead"'
COLUMNS = (
    "way",
    "batch",
    "images_per_second",
    "step_seconds",  # median of the rounds
    "least_seconds",
    "most_seconds",
    "first_step_seconds",
    "steps_to_break_even",  # empty: never
)


@dataclass(frozen=True)
class Timing:
    """A way with one batch size: seconds of a step in each round, and of the very first step,
    which compiles."""

    seconds: Sequence[float]
    first: float

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


Timings = Mapping[int, Mapping[str, Timing]]  # by batch size and way


def break_even(eager: Timing, other: Timing) -> float | None:
    """After how many steps `other` has made up for its longer first step; None: never."""
    gained = eager.median - other.median
    if gained <= 0:
        return None
    return max(0.0, (other.first - eager.first) / gained)


def line(batch: int, way: str, timing: Timing, eager: Timing) -> str:
    """One way at one batch size, in a line of the log."""
    text = (
        f"batch {batch:4}, {way:32} {batch / timing.median:9.1f} images/s, "
        f"{eager.median / timing.median:5.2f} times eager; first step {timing.first:6.1f} s"
    )
    if way == EAGER:
        return text
    steps = break_even(eager, timing)
    return text + ("; never pays" if steps is None else f"; pays after {steps:,.0f} steps")


def write(path: Path, timings: Timings) -> None:
    """A row for each batch size and way."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for batch, by_way in timings.items():
            for way, one in by_way.items():
                steps = None if way == EAGER else break_even(by_way[EAGER], one)
                row = (
                    way,
                    batch,
                    f"{batch / one.median:.5g}",
                    f"{one.median:.4e}",
                    f"{min(one.seconds):.4e}",
                    f"{max(one.seconds):.4e}",
                    f"{one.first:.4g}",
                    "" if steps is None else f"{steps:.0f}",
                )
                table.writerow(row)
